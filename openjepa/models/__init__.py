"""Layer 2: networks. Sizes are data, not code."""
