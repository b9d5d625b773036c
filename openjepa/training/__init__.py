"""Pretraining: checks before a run, the run itself, the loop, monitors and the watch."""
