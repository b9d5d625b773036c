"""Load and save weights: runs, the official archive, Hugging Face."""
