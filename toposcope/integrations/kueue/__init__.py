"""Kueue."""
