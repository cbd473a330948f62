"""Functions that may hang, leak or exit: called in a process of their own."""
