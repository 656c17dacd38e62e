"""The controller's command line, shared by `toposcope controller` and `python -m controller`."""

import argparse
from dataclasses import dataclass, fields
from typing import Final

from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.election import Timing
from toposcope.telemetry.logs import FORMATS

LEASE: Final = "toposcope-controller"
SHORTEST_LEASE_SECONDS: Final = 3
"""Seconds; a shorter one leaves less than a second for a request."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How a controller runs."""

    kubeconfig: str | None
    once: bool
    debounce: float
    metrics_port: int | None
    log_format: str
    config: str | None = None
    dry_run: bool = False
    leader_elect: bool = False
    lease_namespace: str = ""
    """Empty: the pod's own."""
    lease_duration: int = Timing().lease_seconds
    """Seconds."""
    node_paths: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the controller's flags."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="default: the pod's service account, $KUBECONFIG, ~/.kube/config",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="your own label keys, levels and placeholder values, "
        "beside the built-in ones (docs/concepts.md); "
        "read again when it changes; it may be missing",
    )
    about = (
        "reconcile once, then exit: 0 when everything was written; "
        "a required level on no node counts as gone"
    )
    parser.add_argument("--once", action="store_true", help=about)
    about = (
        "write nothing at all: log what would change, each difference once (with --once: print it)"
    )
    parser.add_argument("--dry-run", action="store_true", help=about)
    about = (
        "keep the NodePaths toposcope-node-paths, where a policy looks up which labels a pod gets "
        "when it is bound (component binding-labels)"
    )
    parser.add_argument("--node-paths", action="store_true", help=about)
    about = "how long to gather changes before acting on them; default: 1"
    parser.add_argument("--debounce", type=float, default=1.0, metavar="SECONDS", help=about)
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve /metrics, /healthz and /readyz there",
    )
    parser.add_argument(
        "--leader-elect",
        action="store_true",
        help="run several controllers, of which one at a time writes: the holder of the Lease "
        f"{LEASE}; without this flag run only one controller",
    )
    about = f"where the Lease is; default: the pod's namespace, outside of a pod {HOME_NAMESPACE}"
    parser.add_argument("--lease-namespace", default="", metavar="NAMESPACE", help=about)
    about = (
        "how long after a leader's last renewal another controller takes over; "
        "use more for an API server that is slow or often unavailable; "
        f"default: {Timing().lease_seconds}"
    )
    parser.add_argument(
        "--lease-duration", type=int, default=Timing().lease_seconds, metavar="SECONDS", help=about
    )
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")


def options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> ControllerOptions:
    """The options in parsed arguments; ends the program with a clear error when one cannot be."""
    if arguments.dry_run and arguments.leader_elect:
        parser.error("--dry-run writes nothing, not even a Lease; leave out --leader-elect")
    if arguments.debounce < 0:
        parser.error(f"--debounce {arguments.debounce:g}: must not be negative")
    if arguments.leader_elect and arguments.once:
        parser.error(
            "--leader-elect: a single pass takes no part in leader election; "
            "leave out --leader-elect or --once"
        )
    if arguments.lease_duration < SHORTEST_LEASE_SECONDS:
        parser.error(
            f"--lease-duration {arguments.lease_duration}: "
            f"must be at least {SHORTEST_LEASE_SECONDS} seconds"
        )
    return ControllerOptions(
        *(getattr(arguments, field.name) for field in fields(ControllerOptions))
    )
