"""Pretraining: the door, the run, the loop, the watch."""
