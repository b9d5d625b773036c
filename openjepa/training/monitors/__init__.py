"""Monitors look at a step and yield (name, value). The registry scans this folder."""
