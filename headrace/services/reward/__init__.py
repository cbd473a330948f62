"""Reward: verifiers, the process that runs untrusted ones, and the service that scores answers with them."""
