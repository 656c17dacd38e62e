"""The object with the paths of all nodes, for the policy that labels pods at their binding.

The component binding-labels switches it on, by the flag `--node-paths`.
"""

import logging
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import MANAGED_BY, TOPOSCOPE
from toposcope.controller.node_paths import SharedPaths, shared_paths
from toposcope.controller.writers.writer import WriteOutcome, is_outage
from toposcope.hierarchy.table import Table
from toposcope.integrations.binding_paths import (
    ENTRIES,
    KIND,
    LARGEST,
    LONGEST_LEVEL,
    LONGEST_PATH,
    NAME,
    EncodedPaths,
    encode,
    node_paths,
    path_of_object,
)
from toposcope.integrations.framework.published import MANAGER
from toposcope.integrations.node_plan import NodePlan
from toposcope.kube.client import Caller, Request, find
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import apply
from toposcope.kube.runtime import Runtime
from toposcope.text import plural

log = logging.getLogger(__name__)

WRITE_PAUSE_SECONDS: Final = 10.0
"""From one write to the next: each has the paths of all nodes, 1 MiB at most."""
_LOOK_SECONDS: Final = 60.0
"""How often the object is read to repair what others changed."""
_REFUSED_SECONDS: Final = 60.0
"""From a refused write to the next attempt."""
_NO_ENTRIES: Final = EncodedPaths({})


class NodePathsWriter:
    """Keeps the object equal to the paths of the nodes."""

    def __init__(
        self,
        client: Caller,
        namespace: str,
        runtime: Runtime,
        *,
        is_wanted: bool,
        show: Callable[[str], None] | None = None,
    ) -> None:
        """`client` is fenced to the leader's term.

        Where it is not wanted, what an earlier controller wrote is deleted. `show` gets in words
        what a dry run would write, and nothing is written.
        """
        self._client = client
        self._is_wanted = is_wanted
        self._path = path_of_object(namespace)
        self._name = f"{KIND} {namespace}/{NAME}"
        self._namespace = namespace
        self._runtime = runtime
        self._show = show
        self._nodes: weakref.ref[Table] | None = None
        """The nodes that were looked at last."""
        self._plan: NodePlan | None = None
        self._paths = SharedPaths()
        self._wanted = _NO_ENTRIES
        self._stored: Mapping[str, str] | None = None
        """The entries as last read or written; None: there is no object."""
        self._look_at = runtime.monotonic()
        self._write_at = runtime.monotonic()
        self._refused: ApiError | None = None
        self._is_retracted = False

    def write(self, nodes: Table, plan: NodePlan | None) -> WriteOutcome:
        """Write the path of each node if one has changed. Raises KubeError.

        Without a plan nothing is known of any level, and what is there stays.
        """
        if not self._is_wanted:
            self._retract()
            return WriteOutcome()
        if plan is None:
            return WriteOutcome()
        self._follow(nodes, plan)
        try:
            self._look()
            if self._is_up_to_date():
                return WriteOutcome()
            now = self._runtime.monotonic()
            if now < self._write_at:
                return WriteOutcome(due=self._write_at)
            self._put()
            self._refused = None
        except ApiError as error:
            if is_outage(error):
                raise
            self._refuse(error)
        return WriteOutcome(refusal=self._refused)

    def _retract(self) -> None:
        """Delete the object if it is ours, once in a term. Raises KubeError."""
        if self._is_retracted:
            return
        try:
            stored = find(self._client, self._path)
            if stored is not None and _is_ours(stored):
                self._delete(stored)
                log.info("%s is deleted: the flag --node-paths is not set", self._name)
        except ApiError as error:
            if is_outage(error):
                raise
            # Without the component this program may not even read it.
            log.debug("%s stays as it is: %s", self._name, error)
        self._is_retracted = True

    def _follow(self, nodes: Table, plan: NodePlan) -> None:
        """Work out the entries again where nodes or levels have changed."""
        last = self._nodes() if self._nodes else None
        if nodes is last and plan == self._plan:
            return
        self._nodes = weakref.ref(nodes)
        self._plan = plan
        paths = shared_paths(plan, nodes)
        if paths == self._paths:
            return
        unusable_before = self._paths.unusable
        self._paths = paths
        before = self._wanted
        self._wanted = encode(paths.by_node)
        if not before.without_room:
            self._warn_of_no_room()
        if not unusable_before:
            self._warn_of_unusable()

    def _warn_of_no_room(self) -> None:
        without_room = self._wanted.without_room
        if without_room:
            log.warning(
                "%s is full: its %d KiB have no room for the paths of %d %s, the last by name; "
                "pods there get no labels when they are bound",
                self._name,
                LARGEST >> 10,
                without_room,
                plural(without_room, "node"),
            )

    def _warn_of_unusable(self) -> None:
        unusable = self._paths.unusable
        if unusable:
            log.warning(
                "pods on %d %s get no labels when they are bound: the name of a level has more "
                "than %d characters, or the path more than %d",
                unusable,
                plural(unusable, "node"),
                LONGEST_LEVEL,
                LONGEST_PATH,
            )

    def _is_up_to_date(self) -> bool:
        if self._stored is None:
            return not self._paths.by_node
        return self._wanted.data.items() <= self._stored.items()

    def _look(self) -> None:
        now = self._runtime.monotonic()
        if now < self._look_at:
            return
        stored = find(self._client, self._path)
        if stored is not None and _is_spoiled(stored):
            log.warning(
                "%s has entries of others that an apply cannot remove; recreating it", self._name
            )
            self._delete(stored)
            self._write_at = now
            stored = None
        self._stored = None
        if stored is not None:
            self._stored = stored.get("data") or {}
        self._look_at = now + _LOOK_SECONDS

    def _put(self) -> None:
        data = self._wanted.data
        count = len(self._paths.by_node) - self._wanted.without_room
        nodes = f"{count} {plural(count, 'node')}"
        if self._show is not None:
            self._show(f"{self._name} would be written: the paths of {nodes}")
            self._stored = data
            return
        body = node_paths(self._namespace, data)
        self._client.call(apply(self._path, body, MANAGER, force=True, is_metadata_only=True))
        self._stored = data
        self._write_at = self._runtime.monotonic() + WRITE_PAUSE_SECONDS
        size = sum(map(len, data.values()))
        log.info("%s is written: the paths of %s, %d KiB", self._name, nodes, size >> 10)

    def _refuse(self, error: ApiError) -> None:
        """Try again later; pods are bound with the paths that are there, or without labels."""
        self._write_at = self._runtime.monotonic() + _REFUSED_SECONDS
        self._look_at = self._write_at
        if self._refused is None or self._refused.message != error.message:
            advice = ""
            if error.is_forbidden or error.is_not_found:
                advice = "; install the component binding-labels, or leave out --node-paths"
            log.warning("%s is not written: %s%s", self._name, error, advice)
        self._refused = error

    def _delete(self, stored: Mapping[str, Any]) -> None:
        if self._show is not None:
            return
        uid = stored["metadata"]["uid"]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
        }
        self._client.call(Request("DELETE", self._path, {}, msgspec.json.encode(options)))


def _is_spoiled(stored: Mapping[str, Any]) -> bool:
    """Whether it has entries that nobody looks up, which an apply leaves there."""
    entries = stored.get("data") or {}
    return not entries.keys() <= ENTRIES


def _is_ours(stored: Mapping[str, Any]) -> bool:
    labels = stored["metadata"].get("labels") or {}
    return bool(labels.get(MANAGED_BY) == TOPOSCOPE)
