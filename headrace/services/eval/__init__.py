"""Eval: scores exact versions of a policy's weights on prompts that it is not trained on."""
