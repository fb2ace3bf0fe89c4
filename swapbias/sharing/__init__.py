"""Runs that are shared: what may leave, where it goes, and the runs of others."""
