"""`scenes`: rendered images with known contents, made on this machine."""

from openjepa.data.sources.scenes import source as source  # registers itself
