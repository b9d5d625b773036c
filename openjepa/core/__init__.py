"""Layer 0: the words everyone shares. Imports nothing else of ours."""
