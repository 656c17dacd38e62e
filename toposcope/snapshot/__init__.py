"""What is there, in one look: a cluster read once, live or from saved files, and what follows from it.

`snapshot` holds the facts, `live` and `files` read them, `scope` picks a topology with its levels and nodes, and
`tree`, `outline`, `levels`, `matrix` and `changes` derive. Only `live` and `files` do I/O.
"""
