"""A launch as Prometheus reads it: the newest figures of its records, how its replicas stand, its queue."""
