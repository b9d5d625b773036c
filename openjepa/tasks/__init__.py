"""Layer 2: named downstream tasks: which data, which label, which metric."""
