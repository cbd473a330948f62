"""What a table decides: rows, leases, staleness, steps. No sockets, clocks, files, waits; see `table.py`."""
