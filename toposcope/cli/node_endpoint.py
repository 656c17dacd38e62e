"""Tell the pods of this node where they run: serve the file that the agent keeps with
--topology-file.
"""  # noqa: D205 - a paragraph of --help

import argparse
import asyncio
import dataclasses
import logging
import resource
from pathlib import Path

from toposcope.telemetry.logs import FORMATS, set_up
from toposcope.telemetry.node_endpoint import (
    EndpointLimits,
    NodeEndpoint,
    listening_socket,
    serve,
)
from toposcope.telemetry.served_document import DocumentFile

log = logging.getLogger(__name__)

_LARGEST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope node-endpoint`."""
    parser.add_argument(
        "--file", type=Path, required=True, metavar="FILE", help="what the agent keeps"
    )
    parser.add_argument(
        "--port", type=int, default=9466, metavar="PORT", help="where to serve; default: 9466"
    )
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Serve until a signal; the program's exit code."""
    if not 0 <= arguments.port <= _LARGEST_PORT:
        parser.error(f"--port {arguments.port}: must be from 0 to {_LARGEST_PORT}")
    set_up(arguments.log_format)
    try:
        listening = listening_socket(arguments.port)
    except OSError as error:
        log.error("--port %d: %s", arguments.port, error.strerror)  # noqa: TRY400 - it is enough
        return 1
    endpoint = NodeEndpoint(DocumentFile(arguments.file), _limits())
    asyncio.run(serve(endpoint, listening))
    return 0


def _limits() -> EndpointLimits:
    """The usual limits; fewer connections where the process may not open enough files.

    Container runtimes often allow 1024 files at first, and far more on demand.
    """
    limits = EndpointLimits()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not _allows(soft, limits.files):
        allowed = limits.files if _allows(hard, limits.files) else hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        missing = limits.files - allowed
        if missing:
            limits = dataclasses.replace(limits, connections=max(1, limits.connections - missing))
            log.warning(
                "at most %d connections at once: the process may open only %d files; "
                "raise the container runtime's limit (LimitNOFILE)",
                limits.connections,
                hard,
            )
    return limits


def _allows(limit: int, files: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= files
