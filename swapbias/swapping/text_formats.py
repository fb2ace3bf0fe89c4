"""Batches of rows of CSV, JSON lines and Parquet files, in bounded memory; an error names the row, never a cell."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
