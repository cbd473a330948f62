"""Trains a policy on whole batches of the queue and publishes its weights."""
