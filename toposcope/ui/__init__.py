"""`toposcope ui`: one read-only page that shows a cluster as it is wired. A program of its own, which writes nothing.

A source fills `Facts`; a `Teller` turns what changes there into a snapshot and deltas; the server hands them to pages.
"""
