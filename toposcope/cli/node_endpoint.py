"""Tell the pods of this node where they run: serve the file that the agent keeps with
--topology-file.
"""  # noqa: D205 - a paragraph of --help

import argparse
import asyncio
import logging
from pathlib import Path

from toposcope.telemetry.logs import FORMATS, set_up
from toposcope.telemetry.node_endpoint import NodeEndpoint, listening_socket, serve
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
    endpoint = NodeEndpoint(DocumentFile(arguments.file))
    log.info("serving %s on port %d", arguments.file, listening.getsockname()[1])
    asyncio.run(serve(endpoint, listening))
    return 0
