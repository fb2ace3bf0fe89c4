"""Speed beside what people use: run on demand with ``make bench``, never installed and never part of a test."""
