"""Deterministic simulation of the production programs.

They run under one clock, one scheduler and one source of randomness.
"""
