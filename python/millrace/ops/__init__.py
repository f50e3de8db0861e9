"""Functions that add operations, by kind."""
