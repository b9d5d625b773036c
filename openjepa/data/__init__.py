"""Layer 1: pictures in, batches out. One source per file."""
