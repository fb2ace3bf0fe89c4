"""Findings as tables, figures and one page."""
