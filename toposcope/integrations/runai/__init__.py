"""Run:ai."""
