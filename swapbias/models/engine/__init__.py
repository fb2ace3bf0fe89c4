"""Forward passes at the speed of the hardware: each trick has its slow definition in a test."""
