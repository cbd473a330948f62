"""What was written for GPUs, tried on one: each path in a process of its own, with a verdict.

    __main__ ─► verdicts: a child for each of `paths` ─► child: calls its function ─► PASS | FAIL | SKIP

Every function takes the GPUs that it may use, 1 or 0, so that all can be rehearsed on a CPU.
"""
