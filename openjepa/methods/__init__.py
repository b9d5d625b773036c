"""One method per file, and how to build one from a config."""
