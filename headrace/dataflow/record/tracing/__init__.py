"""Where the time of every sample and replica went, from what the replicas wrote down: `headrace trace`."""
