"""Layer 1: which patches are seen and which are predicted. One strategy per file."""
