"""A run on disk. The only room that knows its file names."""
