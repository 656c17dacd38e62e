"""Show the cluster in a browser: one read-only page with every domain, node and link, and where it hurts."""

import argparse
import logging
import secrets
import socket
import sys
import threading
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
    from ui.facts import Facts
    from ui.source import Source

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
    from ui.bundle import Bundle  # noqa: PLC0415 - the server's libraries are only for this
    from ui.guard import LOCAL  # noqa: PLC0415 - same
    from ui.server import Server, application, listening  # noqa: PLC0415 - same
    from ui.stream import Stream  # noqa: PLC0415 - same
    from ui.teller import Teller  # noqa: PLC0415 - same

    set_up(arguments.log_format)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    wake = threading.Event()
    source, facts = _source(arguments, wake)
    teller = Teller(facts, source.kind, secrets.token_hex(4))
    stop = threading.Event()
    try:
        listener = listening(arguments.listen, arguments.port)
    except OSError as error:
        another = "; --port 0 takes a free one" if arguments.port else ""
        raise Unanswerable(
            f"cannot listen on {arguments.listen}:{arguments.port}: {error.strerror}{another}"
        ) from error
    with listener:
        address = _address(listener)
        bundle = Bundle()
        if bundle.page() is None:
            print(f"warning: {bundle.missing}", file=sys.stderr)
        source.start()
        threading.Thread(target=teller.run, args=(stop, wake), name="teller", daemon=True).start()
        stream = Stream(teller)

        def started() -> None:
            screen.show([f"{facts.source} is shown at {address} until Ctrl-C"])
            sys.stdout.flush()
            if arguments.open:
                webbrowser.open(address)

        hosts = [*LOCAL, *arguments.allow_host]
        server = Server(application(teller, source, bundle, stream, hosts), stream, started)
        server.run(sockets=[listener])
        stop.set()
        source.close()
    return WELL


def _source(arguments: argparse.Namespace, wake: threading.Event) -> "tuple[Source, Facts]":
    """Where the facts come from, and the facts. Raises KubeError for a kubeconfig that is none."""
    from ui.facts import Facts  # noqa: PLC0415 - the server's libraries are only for this

    if arguments.files:
        from ui.saved import EXPECTED as FILES  # noqa: PLC0415 - what is read decides what is loaded
        from ui.saved import SavedSource  # noqa: PLC0415 - same

        facts = Facts(", ".join(arguments.files), FILES, wake.set)
        return SavedSource(arguments.files, facts), facts
    from kube.config import load  # noqa: PLC0415 - same
    from ui.live import EXPECTED, LiveSource  # noqa: PLC0415 - same

    cluster = load(arguments.kubeconfig, context=arguments.context)
    facts = Facts(cluster.server, EXPECTED, wake.set)
    return LiveSource(cluster, facts), facts


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"
