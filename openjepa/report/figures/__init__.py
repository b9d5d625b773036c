"""Functions that return a figure; the caller saves it."""
