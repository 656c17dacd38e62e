"""A cluster read once, live or from saved files, and what follows from it.

`model` has the types, `live`, `files` and `packed` load them, `scope` picks a topology with its
levels and nodes, and `tree`, `outline`, `levels`, `filters`, `changes` and `suggest` derive. Only
the loaders do I/O.
"""
