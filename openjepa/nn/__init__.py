"""Layer 1: tensors in, tensors out. No config, no files."""
