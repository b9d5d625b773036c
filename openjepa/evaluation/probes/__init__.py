"""One probe per file. The registry scans this folder."""
