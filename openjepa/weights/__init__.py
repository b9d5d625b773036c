"""Weights from and for other places: runs, the official archive, Hugging Face."""
