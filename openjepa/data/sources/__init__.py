"""One data source per file. The registry scans this folder."""
