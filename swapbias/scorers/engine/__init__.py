"""Forward passes of encoders at the speed of the hardware: each trick has a file, and its slow definition a test."""

VERSION = 1  # goes up when scores may differ by more than float32 noise
