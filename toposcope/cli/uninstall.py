"""Remove what Toposcope wrote to a cluster, in the right order, and nothing else.

It first stops the programs, because they would write again, then deletes the resources published
for schedulers, the ClusterTopologies, and last the labels and annotations on Nodes. Without --yes
it changes nothing.
"""

import argparse
from collections.abc import Iterator

from toposcope.cli.command import add_cluster_arguments, api_client, run_command
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS
from toposcope.cli.removal import RemovalPlan, Remover, Thing, WaitTimeoutError, find_all
from toposcope.cli.terminal import Screen, complain

_LAST_STEP = (
    "to remove the rest: kubectl delete --ignore-not-found -k manifests/base (or your overlay), "
    "or helm uninstall toposcope"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope uninstall`."""
    parser.epilog = (
        "exit codes: 0 removed (or shown); 1 something is in use, or came back; 2 no answer"
    )
    parser.add_argument(
        "--yes", action="store_true", help="remove it; default: only show what would be removed"
    )
    about = "how long to wait for each object to be gone; default: 120"
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help=about)
    add_cluster_arguments(parser)
    parser.set_defaults(no_pager=True)


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Show or remove; 1 when something is in use, or came back."""
    timeout = arguments.timeout
    if timeout < 0:
        parser.error(f"--timeout {timeout:g}: must not be negative")

    def work(screen: Screen) -> int:
        return _run(screen, arguments)

    return run_command("uninstall", arguments, work)


def _run(screen: Screen, arguments: argparse.Namespace) -> int:
    try:
        with api_client(arguments) as client:
            plan = find_all(client)
            screen.show([f"cluster {client.server}", *plan_lines(plan)])
            if plan.held:
                return _failed(
                    "something is in use: see above, then run this again. Nothing was changed"
                )
            if plan.is_empty:
                return EXIT_OK
            if not arguments.yes:
                screen.show(["nothing was changed; to remove it, add --yes"])
                return EXIT_OK
            remover = Remover(client, lambda line: screen.show([line]), arguments.timeout)
            remover.carry_out(plan)
            again = find_all(client)
    except WaitTimeoutError as error:
        return _failed(str(error))

    if not again.is_empty:
        screen.show(["it came back:", *plan_lines(again)])
        return _failed(
            "something wrote it again: "
            "an agent outside the DaemonSet, or a tool such as Argo CD or Flux?"
        )

    screen.show([_LAST_STEP])
    return EXIT_OK


def plan_lines(plan: RemovalPlan) -> Iterator[str]:
    """The plan, a line for each object."""
    if plan.is_empty:
        yield "nothing to remove; " + _LAST_STEP
    for program in plan.programs:
        yield from _lines("stop", program)
    for thing in (*plan.published, *plan.topologies, *plan.plans):
        yield from _lines("delete", thing)
    if plan.nodes:
        yield f"{'clean':<8}{plan.cleaned}"


def _lines(verb: str, thing: Thing) -> Iterator[str]:
    yield f"{verb:<8}{thing.handle}"
    for holder in thing.holders:
        yield f"        ! in use by {holder}"
    if thing.remark:
        yield f"        ! {thing.remark}"


def _failed(why: str) -> int:
    complain(f"toposcope uninstall: {why}")
    return EXIT_PROBLEMS
