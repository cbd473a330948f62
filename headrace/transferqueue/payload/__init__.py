"""Cells as bytes: append-only Arrow IPC segments, mapped by whoever reads them."""
