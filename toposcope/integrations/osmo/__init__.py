"""OSMO."""
