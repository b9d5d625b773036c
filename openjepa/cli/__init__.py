"""Layer 6: words to functions."""
