"""The controller: aggregates Nodes into status, and publishes what schedulers read.

Watches -> Pass -> assess() -> Findings -> writers -> diff -> apply
"""
