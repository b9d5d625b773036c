"""Judging a frozen encoder: tasks, features, probes, scores."""
