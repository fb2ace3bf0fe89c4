"""Leaves of swapbias: found by name, never imported by the library."""
