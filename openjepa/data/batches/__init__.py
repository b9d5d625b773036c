"""From a source to the batches of step i, i + 1, …"""
