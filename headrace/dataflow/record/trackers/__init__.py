"""Experiment trackers: the run's figures in TensorBoard, W&B, MLflow or Trackio as well.

    records ─► points ─► a bounded queue ─► a process per tracker ─► where it keeps them
    (the run's loop, which never waits)  │  (may fail, hang or be killed)

Invariant: the run's own records are the truth; a tracker that dies costs the points that it was not handed,
which are counted and said, and nothing else.
"""
