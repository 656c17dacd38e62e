"""Show the cluster in a browser: one read-only page with every domain, node and link, and where it hurts."""

import argparse
import contextlib
import gc
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toposcope.cli.failing import CommandError
from toposcope.cli.looking import WELL, add_source_arguments, answer, connected, look
from toposcope.cli.terminal import Screen
from toposcope.kube.errors import KubeError
from toposcope.telemetry.logs import FORMATS, set_up

if TYPE_CHECKING:
    from toposcope.topology.catalogue import Catalogue

PORT: Final = 8470


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope ui`."""
    serving = parser.add_argument_group("where to serve")
    serving.add_argument(
        "--listen", default="127.0.0.1", metavar="ADDRESS", help="an address of this machine; default: 127.0.0.1"
    )
    serving.add_argument("--port", type=_port, default=PORT, help=f"0 takes a free one; default: {PORT}")
    serving.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which browsers may ask for the page, beside localhost; may be given several times",
    )
    serving.add_argument("--open", action="store_true", help="open the page in a browser")
    serving.add_argument("--log-format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument(
        "--export", type=Path, metavar="FILE", help="write the page as it is now into one file, and serve nothing"
    )
    add_source_arguments(parser, ())


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or write the one file."""
    return answer("ui", arguments, lambda screen: _answer(screen, arguments))


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= 65535:  # noqa: PLR2004 - the last port there is
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 0 to 65535")


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    if arguments.files and (arguments.kubeconfig or arguments.context):
        raise CommandError("--from looks at files, --kubeconfig and --context at a cluster; give one or the other")
    if arguments.files and "-" in arguments.files:
        raise CommandError("--from -: standard input cannot be read again when it changes; give a file")
    if arguments.export:
        return _export(screen, arguments)
    return _serve(screen, arguments)


def _export(screen: Screen, arguments: argparse.Namespace) -> int:
    from toposcope.ui.bundle import Bundle, PageNotBuiltError  # noqa: PLC0415 - a page is not built for every use of this program
    from toposcope.ui.export import export  # noqa: PLC0415 - same

    snapshot = look(arguments, matrices=True)
    try:
        text = export(snapshot, "files" if arguments.files else "cluster", Bundle())
        arguments.export.write_text(text, encoding="utf-8", errors="replace")
    except PageNotBuiltError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"--export {arguments.export}: {error.strerror}") from error
    screen.show([f"{arguments.export}: {len(snapshot.nodes)} nodes, {len(text) / 1e6:.1f} MB; open it in a browser"])
    return WELL


def _serve(screen: Screen, arguments: argparse.Namespace) -> int:
    from toposcope.ui.program import address_of, listening, of_cluster, of_files  # noqa: PLC0415 - an export needs no server

    set_up(arguments.log_format)
    program = of_files(arguments.files) if arguments.files else of_cluster(arguments.kubeconfig, arguments.context)
    program.facts.catalogue = _catalogue(arguments)
    gc.enable()  # other commands do without while they look once
    try:
        listener = listening(arguments.listen, arguments.port)
    except OSError as error:
        where = f"{arguments.listen}:{arguments.port}"
        another = "; --port 0 takes a free one" if arguments.port else ""
        raise CommandError(f"cannot listen on {where}: {error.strerror}{another}") from error
    with listener:
        address = address_of(listener)
        if program.bundle.page() is None:
            print(f"warning: {program.bundle.missing}", file=sys.stderr)

        def started() -> None:
            screen.show([f"{program.facts.source} is shown at {address} until Ctrl-C"])
            sys.stdout.flush()
            if arguments.open:
                webbrowser.open(address)

        with contextlib.suppress(KeyboardInterrupt):  # that is how it is told to end; uvicorn may or may not pass it on
            program.serve(listener, arguments.allow_host, started)
    return WELL


def _catalogue(arguments: argparse.Namespace) -> "Catalogue":
    """Which label is which level: as the flags say, else as the cluster's own configuration does."""
    from toposcope.cli.catalogue import catalogue_of, live_catalogue  # noqa: PLC0415 - an export asks for it by itself
    from toposcope.topology.catalogue import BUILT_IN  # noqa: PLC0415 - same

    if arguments.config:
        return catalogue_of(arguments) or BUILT_IN
    if arguments.files:
        return BUILT_IN
    try:
        with connected(arguments) as client:
            return live_catalogue(client)
    except KubeError:
        return BUILT_IN  # the page says by itself that the cluster does not answer
