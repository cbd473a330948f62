"""What whoever scores answers has in common: verdicts, their columns, and when too many scorings failed."""
