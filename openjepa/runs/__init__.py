"""A run on disk. Only this room knows the file names."""
