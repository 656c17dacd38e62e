"""Why does a workload wait? The questions an admin would ask about it, asked in order.

`live` loads the objects around the workload into an `ObjectStore`, `ownership` finds who owns what, `context` checks
what the workload asks for, `steps` holds the questions, `observed_placement` looks where its pods run, and
`scheduler_messages` collects what schedulers reported. Only `live` does I/O.
"""
