"""The controller's command line, shared by `toposcope controller` and `python -m controller`."""

import argparse
from dataclasses import dataclass

from telemetry.logs import FORMATS


@dataclass(frozen=True, slots=True)
class Options:
    """How a controller runs."""

    kubeconfig: str | None
    once: bool
    debounce: float
    metrics_port: int | None
    log_format: str
    config: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the controller's flags."""
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="default: the pod's service account, $KUBECONFIG, ~/.kube/config"
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="label keys, levels and placeholder values of your own, beside the built-in ones (docs/levels.md); "
        "read anew when it changes, need not be there",
    )
    parser.add_argument("--once", action="store_true", help="reconcile once, then exit: 0 when everything was written")
    parser.add_argument(
        "--debounce",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="how long to gather changes before acting on them; default: 1",
    )
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="serve /metrics, /healthz and /readyz there")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")


def options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Options:
    """The options in parsed arguments; ends the program with a clear error when one cannot be."""
    if arguments.debounce < 0:
        parser.error(f"--debounce {arguments.debounce:g}: must not be negative")
    return Options(
        kubeconfig=arguments.kubeconfig,
        once=arguments.once,
        debounce=arguments.debounce,
        metrics_port=arguments.metrics_port,
        log_format=arguments.log_format,
        config=arguments.config,
    )
