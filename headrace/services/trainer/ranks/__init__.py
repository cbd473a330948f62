"""A trainer of several processes on one node: the trainer's own is rank 0, the others are its children.

trainer ─► RankedBackend ─┬─► rank 0's back end, in this process ─┐
                          └─► worker ─► back end of rank 1, ... ──┴─ torch.distributed, in step
"""
