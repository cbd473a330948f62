"""A queue's requests and waits over its tables, without sockets or clocks; start at `hub.py`."""
