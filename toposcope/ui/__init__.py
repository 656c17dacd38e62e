"""`toposcope ui`: one read-only page that shows how a cluster is wired. It is a separate program and writes nothing.

A source fills `Facts`; a `Broadcaster` turns changes into a snapshot and deltas; the server sends them to open pages.
"""
