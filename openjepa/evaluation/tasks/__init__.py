"""One task per file. The registry scans this folder."""
