"""Why does a workload wait? The questions an admin would ask about it, asked in order.

`object_store` loads the objects around the workload, `ownership` finds who owns what, `context`
checks what the workload asks for, `observed_placement` looks where its pods run, and `diagnosis`
asks the questions and collects what schedulers reported. Only `object_store` does I/O.
"""
