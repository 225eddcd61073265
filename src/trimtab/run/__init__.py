"""Whole jobs: a model in, a measured checkpoint with its report out; interrupted and resumed at any moment."""
