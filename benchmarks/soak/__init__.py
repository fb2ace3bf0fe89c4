"""What the package is put through on demand: kills, full disks, strangers' bytes, large files (``make soak``)."""
