"""Layer 5: whole jobs. The only package that sees the whole Config."""
