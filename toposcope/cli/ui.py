"""Show the cluster in a browser: one read-only page with every domain, node, link and fault."""

import argparse
import contextlib
import gc
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toposcope.cli import command, errors
from toposcope.cli.terminal import Screen, complain
from toposcope.kube.errors import KubeError
from toposcope.telemetry.logs import FORMATS, set_up

if TYPE_CHECKING:
    from toposcope.hierarchy.catalogue import Catalogue
    from toposcope.ui.facts import Facts
    from toposcope.ui.program import UiProgram

DEFAULT_PORT: Final = 8470
_port_number: Final = command.whole_number("a port number", 0, 65535)
_CONFIG_SECONDS: Final = 60.0
"""Between two looks at the configuration in the cluster."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope ui`."""
    serving = parser.add_argument_group("where to serve")
    serving.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="an address of this machine; default: 127.0.0.1",
    )
    serving.add_argument(
        "--port",
        type=_port_number,
        default=DEFAULT_PORT,
        help=f"0 picks a free one; default: {DEFAULT_PORT}",
    )
    about = "another host name that browsers may use for the page; can be repeated"
    serving.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=about)
    about = "serve metrics of scores and slots on this port; default: off"
    serving.add_argument("--metrics-port", type=_port_number, metavar="PORT", help=about)
    about = "name the N worst gangs in metrics; default: 0"
    serving.add_argument(
        "--metrics-worst",
        type=command.whole_number(least=0, most=100),
        default=0,
        metavar="N",
        help=about,
    )
    serving.add_argument("--open", action="store_true", help="open the page in a browser")
    serving.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="write the page into one file instead of serving it",
    )
    command.add_source_arguments(parser, ())


@command.on_screen("ui")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or write the one file."""
    command.reject_cluster_flags(arguments)
    if arguments.files and "-" in arguments.files:
        raise errors.CommandError(
            "--from -: standard input cannot be read again when it changes; give a file"
        )

    if arguments.export:
        return _export(screen, arguments)
    return _serve(screen, arguments)


def _export(screen: Screen, arguments: argparse.Namespace) -> int:
    from toposcope.ui.bundle import Bundle, PageNotBuiltError  # noqa: PLC0415 - only for an export
    from toposcope.ui.export import export  # noqa: PLC0415 - same

    snapshot = command.load_snapshot(arguments, has_matrices=True)
    try:
        text = export(snapshot, "files" if arguments.files else "cluster", Bundle())
        arguments.export.write_text(text, encoding="utf-8", errors="replace")
    except PageNotBuiltError as error:
        raise errors.CommandError(str(error)) from error
    except OSError as error:
        raise errors.CommandError(f"--export {arguments.export}: {error.strerror}") from error

    size = f"{len(text) / 1e6:.1f} MB"
    nodes = f"{len(snapshot.nodes)} nodes"
    screen.show([f"{arguments.export}: {nodes}, {size}; open it in a browser"])
    return errors.EXIT_OK


def _serve(screen: Screen, arguments: argparse.Namespace) -> int:
    from toposcope.ui import program as programs  # noqa: PLC0415 - not for an export

    set_up(arguments.log_format)
    if arguments.files:
        program = programs.of_files(arguments.files, arguments.from_limit)
    else:
        program = programs.of_cluster(arguments.kubeconfig, arguments.context)

    program.facts.catalogue = _catalogue(arguments)
    if not (arguments.config or arguments.files):
        threading.Thread(
            target=_follow, args=(arguments, program.facts), name="configuration", daemon=True
        ).start()

    gc.enable()  # paused only for commands that load a snapshot once
    try:
        listener = programs.listening(arguments.listen, arguments.port)
    except OSError as error:
        where = f"{arguments.listen}:{arguments.port}"
        another = "; --port 0 picks a free one" if arguments.port else ""
        raise errors.CommandError(f"cannot listen on {where}: {error.strerror}{another}") from error

    if arguments.metrics_port is not None:
        _serve_metrics(program, arguments)

    with listener:
        address = programs.address_of(listener)
        if program.bundle.page() is None:
            complain(f"warning: {program.bundle.missing}")

        def started() -> None:
            screen.show([f"{program.facts.source} is served at {address} until Ctrl-C"])
            sys.stdout.flush()
            if arguments.open:
                webbrowser.open(address)

        # the way to stop it; uvicorn may or may not pass it on
        with contextlib.suppress(KeyboardInterrupt):
            program.serve(listener, arguments.allow_host, started)

    return errors.EXIT_OK


def _serve_metrics(program: "UiProgram", arguments: argparse.Namespace) -> None:
    try:
        program.serve_metrics(arguments.metrics_port, arguments.metrics_worst)
    except OSError as error:
        raise errors.CommandError(
            f"cannot listen on port {arguments.metrics_port}: {error.strerror}"
        ) from error


def _follow(arguments: argparse.Namespace, facts: "Facts") -> None:
    """Keep up with the configuration in the cluster."""
    from toposcope.cli.catalogue import followed  # noqa: PLC0415 - not for an export

    with command.api_client(arguments, has_log=True) as client:
        for catalogue in followed(client, lambda: threading.Event().wait(_CONFIG_SECONDS)):
            facts.put_catalogue(catalogue)


def _catalogue(arguments: argparse.Namespace) -> "Catalogue":
    """Which label carries which level: by the flags, else by the configuration in the cluster."""
    from toposcope.cli.catalogue import of_cluster, of_flags  # noqa: PLC0415 - not for an export
    from toposcope.hierarchy.catalogue import BUILT_IN  # noqa: PLC0415 - same

    if arguments.config:
        return of_flags(arguments) or BUILT_IN
    if arguments.files:
        return BUILT_IN

    try:
        with command.api_client(arguments, has_log=True) as client:
            return of_cluster(client)
    except KubeError:
        return BUILT_IN  # the page itself reports a cluster that does not answer
