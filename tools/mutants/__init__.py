"""Mutants: small changes of code and policies, for each of which some test has to fail (docs/reliability.md)."""
