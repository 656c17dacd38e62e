"""Models of what must never go wrong, in TLA+, and their checker."""
