"""Sink: keeps the rows that pass in files."""
