"""`toposcope ui`: one read-only page that shows how a cluster is wired.

It is a separate program and writes nothing.

A source fills `Facts`; a `Broadcaster` makes a snapshot of them after each change and tells open
pages to fetch it.
"""
