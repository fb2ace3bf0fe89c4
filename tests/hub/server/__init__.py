"""A Hugging Face Hub on this machine, for tests: real HTTP, real clients, repositories in memory."""

from .hub import LocalHub

__all__ = ["LocalHub"]
