"""Layer 1: what a run leaves on disk. The only place that knows file names in a run folder."""
