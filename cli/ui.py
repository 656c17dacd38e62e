"""Show the cluster in a browser: one read-only page with every domain, node and link, and where it hurts."""

import argparse
import sys
import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli.looking import WELL, Unanswerable, add_source_arguments, answer
from cli.progress import Progress
from cli.terminal import Screen
from telemetry.formats import FORMATS
from telemetry.logs import set_up

if TYPE_CHECKING:
    from survey.snapshot import Snapshot

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
        raise Unanswerable("--from looks at files, --kubeconfig and --context at a cluster; give one or the other")
    if arguments.files and "-" in arguments.files:
        raise Unanswerable("--from -: standard input cannot be read again when it changes; give a file")
    if arguments.export:
        return _export(screen, arguments)
    return _serve(screen, arguments)


def _export(screen: Screen, arguments: argparse.Namespace) -> int:
    from ui.bundle import Bundle, NotBuilt  # noqa: PLC0415 - a page is not built for every use of this program
    from ui.export import export  # noqa: PLC0415 - same

    with Progress(sys.stderr) as progress:
        snapshot = _look(arguments, progress)
    for warning in snapshot.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    try:
        text = export(snapshot, "files" if arguments.files else "cluster", Bundle())
        arguments.export.write_text(text, encoding="utf-8", errors="replace")
    except NotBuilt as error:
        raise Unanswerable(str(error)) from error
    except OSError as error:
        raise Unanswerable(f"--export {arguments.export}: {error.strerror}") from error
    screen.show([f"{arguments.export}: {len(snapshot.nodes)} nodes, {len(text) / 1e6:.1f} MB; open it in a browser"])
    return WELL


def _look(arguments: argparse.Namespace, progress: Progress) -> "Snapshot":
    """All there is, with the matrix of every node."""
    if arguments.files:
        from survey.files import load_files  # noqa: PLC0415 - what is read decides what is loaded

        return load_files(arguments.files, progress=progress, keep_matrix=_keep)
    from cli.looking import connected  # noqa: PLC0415 - same
    from survey.live import Wanted, load_live  # noqa: PLC0415 - same

    with connected(arguments) as client:
        return load_live(client, client.server, datetime.now(UTC), Wanted(keep_matrix=_keep), progress)


def _keep(_name: str, _not_ok: bool) -> bool:
    return True


def _serve(screen: Screen, arguments: argparse.Namespace) -> int:
    from ui.program import address_of, listening, of_cluster, of_files  # noqa: PLC0415 - an export needs no server

    set_up(arguments.log_format)
    program = of_files(arguments.files) if arguments.files else of_cluster(arguments.kubeconfig, arguments.context)
    try:
        listener = listening(arguments.listen, arguments.port)
    except OSError as error:
        where = f"{arguments.listen}:{arguments.port}"
        another = "; --port 0 takes a free one" if arguments.port else ""
        raise Unanswerable(f"cannot listen on {where}: {error.strerror}{another}") from error
    with listener:
        address = address_of(listener)
        if program.bundle.page() is None:
            print(f"warning: {program.bundle.missing}", file=sys.stderr)

        def started() -> None:
            screen.show([f"{program.facts.source} is shown at {address} until Ctrl-C"])
            sys.stdout.flush()
            if arguments.open:
                webbrowser.open(address)

        program.serve(listener, arguments.allow_host, started)
    return WELL
