"""One pass: assess every ClusterTopology, publish, write status, tell people. Reads and writes through one client."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from controller.assess import Assessment, assess
from controller.conditions import LEVELS_AVAILABLE, previous
from controller.effective import Absences
from controller.publishers.target import MANAGER, Published
from controller.spec import API_VERSION, KIND, PATH, Topology
from controller.status import status_of
from kube.apply import apply
from kube.client import ApiClient
from kube.errors import ApiError, KubeError
from kube.events import event
from topology.levels import Level
from topology.node import NodeFacts

log = logging.getLogger(__name__)

REPORTER: Final = "controller"


class Publisher(Protocol):
    """One target of publishing."""

    name: str

    def served(self) -> bool:
        """Whether the API server serves the target's kind. Raises KubeError."""

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Make the target say `levels`. Raises KubeError where trying again can help."""


class Reconciler:
    """Brings the API server up to date with the nodes. `monotonic` and `now` are its clocks.

    What it last wrote of each status is remembered until the watch shows it, so that one change is written once.
    """

    def __init__(
        self,
        client: ApiClient,
        publishers: Sequence[Publisher],
        monotonic: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        instance: str = "",
    ) -> None:
        self._client = client
        self._publishers = publishers
        self._monotonic = monotonic
        self._now = now
        self._instance = instance
        self._absences = Absences()
        self._pending: dict[str, list[Mapping[str, Any]]] = {}

    def reconcile(self, topologies: Sequence[Topology], nodes: Sequence[NodeFacts]) -> dict[str, Assessment]:
        """Reconcile all topologies; the assessments by name. Raises the first KubeError, after all had their turn."""
        for gone in set(self._pending) - {topology.uid for topology in topologies}:
            del self._pending[gone]
            self._absences.forget(gone)
        failed: KubeError | None = None
        assessments = {}
        for topology in topologies:
            try:
                assessments[topology.name] = self._one(self._latest(topology), nodes)
            except KubeError as error:
                log.warning("ClusterTopology %s: %s", topology.name, error)
                failed = failed or error
        if failed:
            raise failed
        return assessments

    def next_deadline(self, topologies: Sequence[Topology]) -> float | None:
        """Seconds until a level has been gone for its grace period; None when none is gone."""
        now = self._monotonic()
        waits = [self._absences.next_deadline(topology.uid, topology.grace, now) for topology in topologies]
        return min((wait for wait in waits if wait is not None), default=None)

    def _latest(self, topology: Topology) -> Topology:
        """The topology with the status that we wrote last, while the watch still shows what was there before it."""
        pending = self._pending.setdefault(topology.uid, [])
        if topology.status not in pending:  # somebody else wrote, or this is the first look
            pending[:] = [topology.status]
        del pending[: pending.index(topology.status)]
        return replace(topology, status=pending[-1])

    def _one(self, topology: Topology, nodes: Sequence[NodeFacts]) -> Assessment:
        assessment = assess(topology, nodes, self._absences, self._monotonic())
        targets = [each for each in self._publishers if topology.publish.get(each.name) != "Never"]
        served = [each for each in targets if each.served()]
        levels = assessment.publishable
        published = [each.publish(topology, levels) for each in served] if levels else self._standing(topology, served)
        status = status_of(topology, assessment, published, self._now(), anything_served=bool(served))
        if status != topology.status:
            self._write(topology, status)
            self._announce(topology, status)
        return assessment

    def _standing(self, topology: Topology, served: Sequence[Publisher]) -> list[Published]:
        """What was published before and is left as it is, because nothing is known that should replace it."""
        if not served:
            return []
        return [
            Published(
                entry["apiVersion"],
                entry["kind"],
                entry["name"],
                "" if entry["inSync"] else "Waiting",
                entry.get("message", ""),
            )
            for entry in topology.status.get("published") or ()
        ]

    def _write(self, topology: Topology, status: dict[str, Any]) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": topology.name, "uid": topology.uid},
            "status": status,
        }
        try:
            self._client.call(apply(f"{PATH}/{topology.name}/status", body, MANAGER, force=True))
        except ApiError as error:
            if not (error.not_found or error.conflict):
                raise
            log.info("ClusterTopology %s is gone", topology.name)
            return
        self._pending[topology.uid].append(status)

    def _announce(self, topology: Topology, status: dict[str, Any]) -> None:
        """Log and record an Event when the availability of the required levels changed."""
        before, after = previous(topology.status, LEVELS_AVAILABLE), previous(status, LEVELS_AVAILABLE)
        if after is None or (before or {}).get("status") == after["status"]:
            return
        if after["status"] == "True" and not (before and before["status"] == "False"):
            return  # available from the start is no news
        if after["status"] == "Unknown":
            return
        bad = after["status"] == "False"
        log.log(logging.WARNING if bad else logging.INFO, "ClusterTopology %s: %s", topology.name, after["message"])
        regarding = {"apiVersion": API_VERSION, "kind": KIND, "name": topology.name, "uid": topology.uid}
        request = event(
            regarding,
            "Warning" if bad else "Normal",
            after["reason"],
            after["message"],
            REPORTER,
            self._instance,
            self._now(),
        )
        try:
            self._client.call(request)
        except KubeError as error:
            # An Event is news for people: losing one must not stop the work.
            log.warning("cannot record an Event about ClusterTopology %s: %s", topology.name, error)
