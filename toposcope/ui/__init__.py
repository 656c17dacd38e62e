"""`toposcope ui`: one read-only page that shows how a cluster is wired.

It is a program of its own and writes nothing to the cluster. A source fills `Facts`; a
`Broadcaster` takes a snapshot of them after each change and tells open pages to fetch it.
"""
