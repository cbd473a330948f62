"""Log-probabilities of given answers, each prompt computed once per group: for trainer and reference."""
