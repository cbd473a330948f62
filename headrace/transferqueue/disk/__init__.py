"""A queue that outlives its controller: journal, snapshots, archive; see `chronicle.py`."""
