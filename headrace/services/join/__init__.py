"""What became of a branch's rows, brought back to the rows that they came from."""
