"""Which ready lot a task leases next: one sampler per task, chosen by name in its spec."""
