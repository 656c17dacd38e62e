"""Generates what docs/ says of the code: tables of labels, metrics, levels, flags and fields."""
