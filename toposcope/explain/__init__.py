"""Why does it wait? The questions that people ask by hand about a workload in the cluster, asked in their order.

`live` and `files` gather the objects around one (a `Shelf`), `family` finds who owns whom, `case` checks what the
workload asks for, each file of `steps` asks one question, `sitting` looks where its pods run, `sayings` at what
schedulers said. Only `live` does I/O.
"""
