"""Remove what Toposcope wrote into a cluster, in the right order, and leave what is not Toposcope's alone.

Its programs are stopped first, for they would write again; then goes what was published for schedulers, then the
ClusterTopologies, then the labels and annotations on Nodes. Without --yes nothing is changed.
"""

import argparse
import time
from collections.abc import Iterator

from toposcope.cli.looking import UNWELL, WELL, answer
from toposcope.cli.removal.carry_out import Remover, WaitTimeoutError
from toposcope.cli.removal.plan import Plan, look
from toposcope.cli.terminal import Screen, complain
from toposcope.cli.writing import cleaned
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load

_LAST_STEP = "to remove the rest: kubectl delete -k manifests/base (or your overlay), or helm uninstall toposcope"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope uninstall`."""
    parser.epilog = (
        "exit codes: 0 removed, or shown what would be; 1 something holds or brings back what has to go; 2 no answer"
    )
    parser.add_argument("--yes", action="store_true", help="do it; default: only show what would be done")
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="how long to wait for each thing to be gone; default: 120",
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="default: the pod's service account, $KUBECONFIG, ~/.kube/config"
    )
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig; default: the current one")
    parser.set_defaults(no_pager=True)


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Show or remove; 1 when something holds what has to go, or it is there again afterwards."""
    if arguments.timeout < 0:
        parser.error(f"--timeout {arguments.timeout:g}: must not be negative")
    return answer("uninstall", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    cluster = load(arguments.kubeconfig, context=arguments.context)
    client = ApiClient(cluster, "toposcope", timeout=60.0)
    try:
        plan = look(client)
        screen.show([f"cluster {cluster.server}", *told(plan)])
        if plan.held:
            return _failed("something is held; let go of it first, then run this again. Nothing was changed")
        if plan.empty:
            return WELL
        if not arguments.yes:
            screen.show(["nothing was changed; --yes does it"])
            return WELL
        Remover(client, lambda line: screen.show([line]), arguments.timeout, time.monotonic, time.sleep).carry_out(plan)
        again = look(client)
    except WaitTimeoutError as error:
        return _failed(str(error))
    finally:
        client.close()
    if not again.empty:
        screen.show(["it is there again:", *told(again)])
        return _failed("somebody wrote it since: an agent outside of the DaemonSet, or a tool such as Argo CD or Flux?")
    screen.show([_LAST_STEP])
    return WELL


def told(plan: Plan) -> Iterator[str]:
    """The plan in words, a line for each thing."""
    if plan.empty:
        yield "nothing of Toposcope's is left; " + _LAST_STEP
    for verb, things in (("stop", plan.programs), ("delete", plan.published), ("delete", plan.topologies)):
        for thing in things:
            yield f"{verb:<8}{thing.handle}"
            for remark in (*(f"held by {holder}" for holder in thing.holders), thing.remark):
                if remark:
                    yield f"        ! {remark}"
    if plan.nodes:
        keys = sum(node.keys for node in plan.nodes)
        yield f"{'clean':<8}{cleaned(len(plan.nodes), keys)}"


def _failed(why: str) -> int:
    complain(f"toposcope uninstall: {why}")
    return UNWELL
