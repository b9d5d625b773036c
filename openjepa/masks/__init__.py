"""Mask strategies, one per file: which patches are context, which are targets."""
