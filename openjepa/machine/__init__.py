"""The computer: devices, processes, memory, the disk cache, the terminal, signals."""
