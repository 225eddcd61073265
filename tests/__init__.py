"""Tests of Trimtab, one folder a room."""
