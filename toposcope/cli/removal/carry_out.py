"""Takes away what a plan names, one kind of thing after the other, and waits where the next one has to."""

import functools
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from toposcope.api.cluster_topology import HOME_NAMESPACE
from toposcope.cli.removal.plan import Plan, Thing
from toposcope.cli.writing import cleaned
from toposcope.errors import ToposcopeError
from toposcope.kube.client import ApiClient, Request, find
from toposcope.kube.errors import ApiError
from toposcope.kube.listing import everything

_PODS: Final = f"/api/v1/namespaces/{HOME_NAMESPACE}/pods"
_OURS: Final = "app.kubernetes.io/name=toposcope"
_PAUSE: Final = 1.0
_UNPROCESSABLE: Final = 422


class WaitTimeoutError(ToposcopeError):
    """Something did not go in time; the message says what, and what to do."""


class Remover:
    """Carries out one plan. `monotonic` and `sleep` are a clock's; `tell` gets a line for each thing done."""

    def __init__(
        self,
        client: ApiClient,
        tell: Callable[[str], None],
        patience: float,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._client = client
        self._tell = tell
        self._patience = patience
        self._monotonic = monotonic
        self._sleep = sleep

    def carry_out(self, plan: Plan) -> None:
        """Remove all of it. Raises KubeError, and Waited; what was removed until then stays removed."""
        self._delete(plan.programs, "stopped")
        self._wait(
            self._pods,
            "pods of Toposcope still run and would write again: see `kubectl get pods -n {0}`; those on nodes that are "
            "down go with `kubectl delete pod --force`",
        )
        self._delete(plan.published, "deleted")
        self._delete(plan.topologies, "deleted")
        for node in plan.nodes:
            for request in node.requests:
                self._send(request)
        if plan.nodes:
            keys = sum(node.keys for node in plan.nodes)
            self._tell(f"cleaned {cleaned(len(plan.nodes), keys)}")

    def _delete(self, things: Iterable[Thing], done: str) -> None:
        for thing in things:
            options = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
                "preconditions": {"uid": thing.uid},
            }
            self._send(Request("DELETE", thing.path, {}, msgspec.json.encode(options)))
        for thing in things:
            self._wait(functools.partial(self._left, thing), f"{thing.handle} is deleted but not gone; {{0}}")
            self._tell(f"{done} {thing.handle}")

    def _send(self, request: Request) -> None:
        """Send it, unless its object is gone already, or is another one by now: the last look will tell."""
        try:
            self._client.call(request)
        except ApiError as error:
            if not (error.not_found or error.conflict or error.status == _UNPROCESSABLE):
                raise

    def _left(self, thing: Thing) -> str:
        """Why the object is still there; nothing once it is not."""
        there = find(self._client, thing.path)
        if there is None or there["metadata"]["uid"] != thing.uid:
            return ""
        names = there["metadata"].get("finalizers") or ()
        return f"its finalizers hold it: {', '.join(names)}" if names else "see `kubectl get -o yaml` of it"

    def _pods(self) -> str:
        pods = everything(self._client, _PODS, selector=_OURS, metadata_only=True)
        return HOME_NAMESPACE if pods else ""

    def _wait(self, left: Callable[[], str], words: str) -> None:
        """Ask until nothing is left. Raises Waited with `words` about what is."""
        until = self._monotonic() + self._patience
        while why := left():
            if self._monotonic() >= until:
                raise WaitTimeoutError(f"{words.format(why)}; then run it again (waited {self._patience:g} s)")
            self._sleep(_PAUSE)
