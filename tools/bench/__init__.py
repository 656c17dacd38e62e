"""`make bench`: what Toposcope costs, beside limits or a peer measured in the same run.

A figure alone says more about the machine than about the code, so nothing is reported without
something to hold it against. How each one is taken, and what it leaves out, stands in the docstring
of its file and in docs/performance.md. Linux only: processes are measured through /proc and their
CPU clocks.
"""
