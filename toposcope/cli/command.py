"""What the commands that inspect a cluster share: where they read it from, how they are run."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from toposcope.cli.errors import EXIT_ERROR, EXPECTED, CommandError, complaint
from toposcope.cli.output import names_of
from toposcope.cli.progress import ProgressLine
from toposcope.cli.streams import EXIT_NO_READER, forget
from toposcope.cli.terminal import Screen, complain, screen
from toposcope.hierarchy.coverage import some_names
from toposcope.snapshot.cutter import LIMIT
from toposcope.snapshot.decode import keep_degraded, keep_every, paused_gc
from toposcope.snapshot.model import Collector, Snapshot
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.scope import Scope
from toposcope.text import plural

if TYPE_CHECKING:
    from toposcope.api.cluster_topology import Topology
    from toposcope.hierarchy.catalogue import Catalogue
    from toposcope.kube.client import ApiClient
    from toposcope.snapshot.decode import KeepMatrix
    from toposcope.snapshot.live import WantedParts

Run = Callable[[argparse.ArgumentParser, argparse.Namespace], int]
"""What `toposcope.cli.main` calls of a command; returns the exit code."""

_MOST_DIGITS: Final = 8
_MOST_NUMBER: Final = 10**_MOST_DIGITS
_TIMEOUT_SECONDS: Final = 20.0
"""Of silence: a page of 500 Nodes takes a busy API server a few seconds."""
_SECONDS_PER_UNIT: Final = {"s": 1, "m": 60, "h": 3600}
_EXIT_INTERRUPTED: Final = 130

OUTPUTS: Final = ("table", "wide", "json", "yaml", "name")

EPILOG: Final = (
    "exit codes: 0 OK; 1 the command found a problem; "
    "2 it could not run (wrong usage, unreadable input, no answer)"
)


def add_source_arguments(
    parser: argparse.ArgumentParser, outputs: tuple[str, ...] = OUTPUTS
) -> None:
    """Declare where to read the cluster, and how to print."""
    parser.epilog = EPILOG
    source = parser.add_argument_group("where to read the cluster")
    about = (
        "saved objects instead of a live cluster: JSON or YAML from kubectl, also gzipped, "
        "or a file of toposcope save; a file, a directory, a pipe or - (standard input); "
        "can be repeated"
    )
    source.add_argument("--from", dest="files", action="append", metavar="FILE", help=about)
    source.add_argument(
        "--from-limit",
        type=_mebibytes,
        default=LIMIT,
        metavar="MIB",
        help="the largest document in a file; "
        "32 times that unpacked, and 4096 objects a MiB; default: 256",
    )
    add_cluster_arguments(source)
    source.add_argument(
        "--config",
        metavar="FILE",
        help="your own levels: the controller's configuration, or its ConfigMap; "
        "default: the one in the cluster, if it can be read",
    )
    if outputs:
        parser.add_argument(
            "-o", "--output", choices=outputs, default=outputs[0], help=f"default: {outputs[0]}"
        )

    parser.add_argument(
        "--no-pager",
        action="store_true",
        help="do not page long output ($PAGER, on terminals only)",
    )


def whole_number(
    what: str = "a number", least: int = 1, most: int = _MOST_NUMBER
) -> Callable[[str], int]:
    """A reader of a whole number in a flag; `what` says in the error what the number is."""
    allowed = f"give {least} or more"
    if most < _MOST_NUMBER:
        allowed = f"give {least} to {most}"

    def read(text: str) -> int:
        if not _is_number(text.removeprefix("-")):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}; {allowed}")
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too small; {allowed}")
        if number > most:
            raise argparse.ArgumentTypeError(f"{number} is too large; {allowed}")
        return number

    return read


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _mebibytes(text: str) -> int:
    """The bytes in a number of MiB."""
    return whole_number("a number of MiB")(text) << 20


def add_cluster_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare `--kubeconfig` and `--context`."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="default: the pod's service account, $KUBECONFIG, ~/.kube/config",
    )
    parser.add_argument(
        "--context", metavar="NAME", help="a context of the kubeconfig; default: the current one"
    )
    about = "how long the API server may be silent, such as 5s or 2m; 0: forever; default: 20s"
    parser.add_argument(
        "--request-timeout", type=_seconds, default=_TIMEOUT_SECONDS, metavar="TIME", help=about
    )


def _seconds(text: str) -> float:
    """The seconds in a time such as 5s or 2m; 0 is no limit.

    A plain number is in seconds, as in kubectl.
    """
    number = text
    unit = "s"
    if text and not text[-1].isdigit():
        number = text[:-1]
        unit = text[-1]

    if unit not in _SECONDS_PER_UNIT or not _is_number(number):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 5s, 2m or 1h; 0 waits forever"
        )
    return int(number) * _SECONDS_PER_UNIT[unit]


TOPOLOGY: Final = ("clustertopology", "clustertopologies", "gtopo")
NODE: Final = ("node", "nodes", "no")


def add_object(
    parser: argparse.ArgumentParser,
    dest: str,
    kinds: Sequence[str],
    about: str,
    *,
    is_required: bool,
) -> None:
    """Declare an argument that names an object: `NAME`, `KIND/NAME` or `KIND NAME`."""
    example = f"write NAME or {kinds[0]}/NAME"

    def is_kind(word: str) -> bool:
        return word.lower().partition(".")[0] in kinds

    def name(text: str) -> str:
        kind, slash, rest = text.partition("/")
        if not slash:
            return text
        if not rest or not is_kind(kind):
            raise argparse.ArgumentTypeError(f"{text!r} is not a {kinds[0]}: {example}")
        return rest

    class Name(argparse.Action):
        """The second of two words: the first is the kind."""

        def __call__(
            self,
            parser: argparse.ArgumentParser,
            namespace: argparse.Namespace,
            value: Any,
            _: Any = None,
        ) -> None:
            if value is None:
                return
            kind = str(getattr(namespace, dest))
            if not is_kind(kind):
                parser.error(f"{kind!r} is not a kind that {parser.prog} takes: {example}")
            setattr(namespace, dest, value)

    if is_required:
        parser.add_argument(dest, metavar=dest.upper(), type=name, help=about)
    else:
        parser.add_argument(dest, metavar=dest.upper(), type=name, help=about, nargs="?")

    parser.add_argument(f"{dest}_name", nargs="?", action=Name, help=argparse.SUPPRESS)


def add_watch(parser: argparse.ArgumentParser, *, is_without_pods: bool = False) -> None:
    """Declare `--watch`; a command that never looks at pods `is_without_pods`."""
    text = "print again whenever something changes, until Ctrl-C"
    parser.add_argument("-w", "--watch", action="store_true", help=text)
    parser.set_defaults(watched=None)
    if is_without_pods:
        parser.set_defaults(no_pods=True)


def add_topology(parser: argparse.ArgumentParser) -> None:
    """Declare the ClusterTopology that a command is about."""
    add_object(
        parser, "topology", TOPOLOGY, "a ClusterTopology; default: the only one", is_required=False
    )


def load_snapshot(
    arguments: argparse.Namespace,
    *,
    has_pods: bool = True,
    has_published: bool = False,
    node: str | None = None,
    others: Collector | None = None,
    has_neighbours: bool = False,
    has_matrices: bool = False,
    on_topologies: Callable[[tuple["Topology", ...]], None] | None = None,
) -> Snapshot:
    """The snapshot that the flags ask for; its warnings go to standard error.

    `node` is the node whose matrix is kept, and the only one that is read of a live cluster unless
    it `has_neighbours`; where it `has_matrices`, those of all nodes are kept. `others` gets what it
    wants of other objects in files. `on_topologies` gets the ClusterTopologies of a live cluster
    before its nodes are read. Raises InputError, KubeError and CommandError.
    """
    keep = _matrices_to_keep(node, has_every_matrix=has_matrices)
    catalogue = None
    if arguments.config:
        from toposcope.cli.catalogue import of_flags  # noqa: PLC0415 - only for this flag

        catalogue = of_flags(arguments)

    if arguments.files:
        snapshot = _of_files(arguments, keep, others)
    else:
        from toposcope.snapshot.live import WantedParts  # noqa: PLC0415 - not for files

        wanted = WantedParts(has_pods, has_published, node, keep, on_topologies, has_neighbours)
        snapshot = _of_cluster(arguments, wanted, catalogue)

    if catalogue:
        snapshot = replace(snapshot, catalogue=catalogue)

    warnings = snapshot.warnings_about_pods_too if has_pods else snapshot.warnings
    for warning in warnings:
        complain(f"warning: {warning}")
    return snapshot


def _matrices_to_keep(node: str | None, *, has_every_matrix: bool) -> "KeepMatrix":
    """Which nodes keep their link matrix: the named one, all, or those that are degraded."""
    if has_every_matrix:
        return keep_every
    if node is None:
        return keep_degraded
    return lambda name, _: name == node


def _of_files(
    arguments: argparse.Namespace, keep: "KeepMatrix", others: Collector | None
) -> Snapshot:
    from toposcope.snapshot.files import load_files  # noqa: PLC0415 - not for a live cluster

    with ProgressLine(sys.stderr) as progress:
        reject_cluster_flags(arguments)
        return load_files(
            arguments.files,
            progress=progress,
            keep_matrix=keep,
            others=others,
            limit=arguments.from_limit,
        )


def _of_cluster(
    arguments: argparse.Namespace, wanted: "WantedParts", catalogue: "Catalogue | None"
) -> Snapshot:
    """A live cluster, with the levels of its controller where no others are given."""
    from toposcope.cli.catalogue import of_cluster  # noqa: PLC0415 - not for files
    from toposcope.snapshot.live import load_live  # noqa: PLC0415 - same

    with ProgressLine(sys.stderr) as progress, api_client(arguments) as client:
        watched = getattr(arguments, "watched", None)
        if watched:
            snapshot: Snapshot = watched(client, has_published=wanted.has_published)
        else:
            snapshot = load_live(client, client.server, datetime.now(UTC), wanted, progress)
        if catalogue is None:
            snapshot = replace(snapshot, catalogue=of_cluster(client))
    return snapshot


def reject_cluster_flags(arguments: argparse.Namespace) -> None:
    """Raise CommandError where `--from` comes with flags of a live cluster."""
    if arguments.files and (arguments.kubeconfig or arguments.context):
        raise CommandError(
            "--from reads files, --kubeconfig and --context a live cluster; give one or the other"
        )


def load_topologies_only(arguments: argparse.Namespace) -> Snapshot:
    """A live cluster's ClusterTopologies without its nodes, or everything in files.

    Raises what `load_snapshot` raises.
    """
    from toposcope.snapshot.live import load_topologies  # noqa: PLC0415 - not for files

    if arguments.files:
        return load_snapshot(arguments, has_pods=False)
    with api_client(arguments) as client:
        return load_topologies(client, client.server, datetime.now(UTC))


@contextmanager
def api_client(arguments: argparse.Namespace, *, has_log: bool = False) -> Iterator["ApiClient"]:
    """A client of the cluster that the flags name. Raises KubeError.

    Its warnings are printed, except where the program `has_log` of its own.
    """
    from toposcope.cli.log import shown  # noqa: PLC0415 - not for files
    from toposcope.kube.client import ApiClient  # noqa: PLC0415 - same
    from toposcope.kube.config import load  # noqa: PLC0415 - same

    timeout = arguments.request_timeout or None
    with nullcontext() if has_log else shown():
        cluster = load(arguments.kubeconfig, context=arguments.context)
        with closing(ApiClient(cluster, "toposcope", timeout)) as client:
            yield client


def no_node(snapshot: Snapshot, name: str, others: Iterable[str] = ()) -> CommandError:
    """The error of a name that no node has; `others` are further names that would do."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for an error

    close = get_close_matches(name, [*snapshot.by_name, *others], 1)
    hint = f"did you mean {close[0]!r}?" if close else "all nodes: toposcope nodes"
    return CommandError(f"there is no node {name!r} in {snapshot.source}; {hint}")


def no_nodes(snapshot: Snapshot, scope: Scope) -> CommandError:
    """The error of a scope without nodes."""
    count = len(snapshot.nodes)
    if not count:
        return CommandError(f"there are no nodes in {snapshot.source}")

    if not scope.topology:
        return CommandError(
            f"none of {count} nodes has a GPU "
            "that an agent, a device plugin or the GPU operator reports"
        )

    selects = f"ClusterTopology {scope.name!r} selects none of {count} nodes"
    if scope.without_agent:
        names = some_names(names_of(scope.without_agent))
        return CommandError(
            f"{selects}; {len(scope.without_agent)} with GPUs wait for an agent: {names}; "
            "is its DaemonSet running there?"
        )
    return CommandError(f"{selects}; check its spec.nodeSelector")


def on_screen(command: str) -> Callable[[Callable[[Screen, argparse.Namespace], int]], Run]:
    """Decorates a function that works on a screen, and makes it the `run` of this command."""

    def decorated(work: Callable[[Screen, argparse.Namespace], int]) -> Run:
        def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
            return run_command(command, arguments, lambda screen: work(screen, arguments))

        return run

    return decorated


def run_command(command: str, arguments: argparse.Namespace, work: Callable[[Screen], int]) -> int:
    """Do the work of a command on the screen; returns the exit code, also for expected errors."""
    try:
        return _run(command, arguments, work)
    except BrokenPipeError:
        forget(sys.stdout)
        return EXIT_NO_READER
    except OSError as error:  # unreadable files have become InputError long before
        forget(sys.stdout)
        complain(f"toposcope {command}: cannot write the output: {error.strerror or error}")
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except InputError as error:
        for problem in error.problems:
            complain(problem)
        count = len(error.problems)
        complain(f"toposcope {command}: {count} {plural(count, 'problem')} in the input")
    except EXPECTED as error:
        complain(complaint(command, arguments, error))

    return EXIT_ERROR


def _run(command: str, arguments: argparse.Namespace, work: Callable[[Screen], int]) -> int:
    if getattr(arguments, "watch", False):
        from toposcope.cli.watching import watch  # noqa: PLC0415 - only for this flag

        watch(command, arguments, work)

    is_wide = getattr(arguments, "output", "") == "wide"
    with paused_gc():  # scanning a large cluster's objects takes longer than the command
        code = work(screen(can_page=not arguments.no_pager, is_wide=is_wide))
        sys.stdout.flush()
    return code
