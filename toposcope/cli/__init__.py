"""The `toposcope` command. Each subcommand is a module here, loaded only when it is called."""

from typing import Final

COMMANDS: Final = {
    "status": "say on one screen whether all is well, and what to do next",
    "tree": "show the hierarchy with counts of nodes and GPUs, and what is free",
    "nodes": "list nodes by label, domain or state",
    "levels": "list the levels: key, coverage, domains, who requires them",
    "matrix": "show how the GPUs and NICs of a node are linked",
    "save": "save a cluster into a small file that all commands load at once",
    "diff": "show what changed in a cluster since it was saved",
    "check": "check workloads before you submit them: rules, levels, room",
    "ui": "show the cluster in a browser, live or from files, or as one file",
    "explain": "explain why a workload in the cluster waits, and what to do next",
    "score": "show how well running gangs are placed, the worst first",
    "whatif": "show what a drain, more nodes or another workload would change",
    "drain-order": "show in which order nodes or domains can be drained",
    "slots": "show how many gangs of each size still fit, level by level",
    "suggest": "suggest ClusterTopologies for the kinds of nodes in the cluster",
    "export": "write the topology for Grove, KAI, Kueue, Slurm, NCCL and others",
    "rank": "give the pods of a job ranks in the order of their racks",
    "discover": "show how the GPUs of this machine (or a profile) are wired",
    "agent": "keep the labels of this node up to date (runs on every GPU node)",
    "node-endpoint": "tell the pods of this node where they run (opt-in)",
    "switches": "record on this node which switch each NIC is cabled to (opt-in)",
    "controller": "keep ClusterTopologies and what schedulers read up to date",
    "uninstall": "remove what Toposcope wrote: topologies, labels, annotations",
    "demo": "simulate a cluster and watch everything work together",
    "completion": "print shell completion for bash, zsh or fish",
}
"""Subcommand to its one-line help."""


def module_of(command: str) -> str:
    """The module of a subcommand."""
    return f"{__name__}.{command.replace('-', '_')}"
