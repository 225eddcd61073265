"""Trimtab: make a trained language model smaller without training it again."""

__version__ = "0.1.0"
