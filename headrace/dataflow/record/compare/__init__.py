"""Runs beside each other: what was set otherwise, and what came of it. `headrace compare`."""
