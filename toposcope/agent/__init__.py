"""The agent: one process per node that reads how its GPUs are wired and writes it on its own Node.

    probe() -> RawNode -> discover(raw) -> NodeTopology -> labels_for(topology) -> diff -> apply

`probe` runs in a child process that may hang or crash (see `nvml.worker`); the rest are pure
functions up to `apply`.
"""
