"""Several runs that answer one question: compare and ablate."""
