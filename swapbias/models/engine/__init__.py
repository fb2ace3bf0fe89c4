"""Forward passes of encoders at the speed of the hardware: each trick has a file, and its slow definition a test."""
