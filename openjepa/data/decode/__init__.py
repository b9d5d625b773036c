"""From the bytes of a file to an image."""
