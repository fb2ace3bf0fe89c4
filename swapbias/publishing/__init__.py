"""What the package publishes, corpora as datasets and measures as Spaces, and fetching them back."""
