"""`toposcope ui`: one read-only page that shows a cluster as it is wired. A program of its own, which writes nothing.

    sources (watch, files) -> Facts -> Frame (what the page is told) -> snapshot, deltas -> page
"""
