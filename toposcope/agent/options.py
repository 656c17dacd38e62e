"""The agent's command line, shared by `toposcope agent` and `python -m agent`.

Read before the worker is forked (see `nvml.process`), so it loads little: no dataclasses, no
logging.
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

from toposcope.telemetry.logs import FORMATS


class AgentOptions(NamedTuple):
    """How the agent is configured."""

    node_name: str
    kubeconfig: str | None = None
    once: bool = False
    interval: float = 60.0
    spread: float = 30.0
    accept_degraded: bool = False
    cleanup: bool = False
    nvidia_labels: bool = False
    audit_slices: bool = False
    unique_values: bool = False
    slinky: bool = False
    pair_metrics: bool = False
    vf_rails: bool = False
    topology_file: Path | None = None
    metrics_port: int | None = None
    log_format: str = "text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the agent's flags."""
    add_node_arguments(parser)
    parser.add_argument(
        "--once",
        action="store_true",
        help="probe and publish once, then exit: 0 if both succeeded",
    )
    parser.add_argument(
        "--interval", type=float, metavar="SECONDS", help="time between probes; default: 60"
    )
    about = (
        "wait a random time up to this before the first write, "
        "so that a rollout does not stampede; default: 30"
    )
    parser.add_argument("--spread", type=float, metavar="SECONDS", help=about)
    parser.add_argument(
        "--accept-degraded",
        action="store_true",
        help="make the node's current state its baseline, then exit",
    )
    parser.add_argument(
        "--cleanup",
        action="store_true",
        help="remove all our labels and annotations from this node, then exit",
    )
    about = (
        "also write nvidia.com/gpu.clique and other labels of NVIDIA's that nothing else writes; "
        "the admission policy must allow it"
    )
    parser.add_argument("--nvidia-labels", action="store_true", help=about)
    about = (
        "compare this node's ResourceSlices with its hardware, and note what differs; "
        "needs the verb list on them"
    )
    parser.add_argument("--audit-slices", action="store_true", help=about)
    about = (
        "also write gpu.topology/unique-<level> "
        "where a ClusterTopology's spec.uniqueValues asks for it"
    )
    parser.add_argument("--unique-values", action="store_true", help=about)
    about = (
        "also write Slinky's annotation where a ClusterTopology's spec.publish.slinky asks for it"
    )
    parser.add_argument("--slinky", action="store_true", help=about)
    parser.add_argument(
        "--pair-metrics",
        action="store_true",
        help="one more metric for each pair of devices: 190 on an 8-GPU node",
    )
    add_vf_rails_argument(parser)
    about = (
        "also keep the node's path, GPUs, NICs and link matrix as JSON there, "
        "for toposcope node-endpoint"
    )
    parser.add_argument("--topology-file", type=Path, metavar="FILE", help=about)
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve /metrics, /healthz and /readyz there",
    )
    add_sysfs_argument(parser)
    parser.add_argument("--log-format", choices=FORMATS, help="default: text")
    parser.set_defaults(**AgentOptions._field_defaults)


def add_node_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which node a program is on, and how it reaches the API server."""
    parser.add_argument(
        "--node-name",
        default=os.environ.get("NODE_NAME"),
        help="this node's name; default: $NODE_NAME",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="default: the pod's service account, $KUBECONFIG, ~/.kube/config",
    )


def add_sysfs_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--sysfs`."""
    parser.add_argument(
        "--sysfs",
        type=Path,
        default=Path("/sys"),
        metavar="DIR",
        help="where the kernel's sysfs is; default: /sys",
    )


def add_vf_rails_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--vf-rails`."""
    about = (
        "also count virtual functions (SR-IOV) as NICs, for clusters where pods get them as rails"
    )
    parser.add_argument("--vf-rails", action="store_true", help=about)


def check_node_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the program with an error where it knows no node or cannot wait between its rounds."""
    if not arguments.node_name:
        parser.error(
            "which node? pass --node-name NAME or set NODE_NAME (in a pod: fieldRef spec.nodeName)"
        )
    if not arguments.interval > 0:
        parser.error(f"--interval {arguments.interval:g}: must be more than 0 seconds")


def options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> AgentOptions:
    """The options in parsed arguments; ends the program with an error for a bad value."""
    check_node_arguments(parser, arguments)
    if arguments.spread < 0:
        parser.error(f"--spread {arguments.spread:g}: must not be negative")
    if arguments.cleanup and arguments.accept_degraded:
        parser.error("--cleanup and --accept-degraded contradict each other; give one")
    if arguments.topology_file and arguments.once:
        parser.error("--topology-file is kept by an agent that runs on; leave out --once")
    values = [getattr(arguments, name) for name in AgentOptions._fields]
    chosen = AgentOptions(*values)
    return chosen._replace(once=chosen.once or chosen.accept_degraded)
