"""Layer 2: frozen features in, scores out."""
