"""Counterfactual swap, neutralisation and augmentation of running text."""

from swapbias.swapping.swapper import MODES, Swapped, Swapper

__all__ = ["MODES", "Swapped", "Swapper"]
