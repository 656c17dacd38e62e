"""Deterministic simulation.

The production programs under one clock, one scheduler and one source of randomness.
"""
