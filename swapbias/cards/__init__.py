"""Cards: the README.md of a repo on the Hub, as text."""
