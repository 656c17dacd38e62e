"""Whether admission policies and RBAC confine the controller: for its readiness, a metric and an Event on its pod."""

import logging
import threading
from datetime import UTC, datetime
from typing import Final

from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import HOSTNAME
from toposcope.controller.options import LEASE
from toposcope.integrations.framework.published import MANAGER
from toposcope.integrations.node_plan import CONFIG_MAP
from toposcope.integrations.registry import PUBLISHED
from toposcope.integrations.volcano.hyper_nodes import member
from toposcope.kube.account_rights import AccountRights, Right
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.confinement import NOBODY, Confinement
from toposcope.kube.discovery import discover
from toposcope.kube.errors import KubeError
from toposcope.kube.requests import create, event
from toposcope.kube.runtime import Event
from toposcope.text import compact

log = logging.getLogger("controller")

RIGHTS: Final = frozenset(
    {
        Right("", "nodes", "get"),
        Right("", "nodes", "list"),
        Right("", "nodes", "watch"),
        Right("gpu.topology", "clustertopologies", "create"),
        Right("gpu.topology", "clustertopologies", "patch"),
        Right("gpu.topology", "clustertopologies", "delete"),
        Right("gpu.topology", "clustertopologies/status", "patch"),
        Right("events.k8s.io", "events", "create"),
        Right("events.k8s.io", "events", "patch"),
        # In its own namespace.
        Right("", "events", "list"),
        Right("", "configmaps", "get", (CONFIG_MAP,)),
        Right("", "configmaps", "create", (CONFIG_MAP,)),
        Right("", "configmaps", "patch", (CONFIG_MAP,)),
        Right("coordination.k8s.io", "leases", "create"),
        Right("coordination.k8s.io", "leases", "get", (LEASE,)),
        Right("coordination.k8s.io", "leases", "update", (LEASE,)),
    }
)
"""What RBAC may grant the controller of what is looked at: no write of a Node, which no policy would confine."""


def foreign_writes(client: ApiClient, pod: str) -> dict[str, Request]:
    """Writes that the admission policies must refuse: what each would do, and its request.

    Raises KubeError.

    Of what schedulers read, one for each kind that is served. It has the fields of all: what breaks
    a schema is refused before policies are asked, and fields that a schema lacks are ignored.
    """
    metadata = {"name": NOBODY}
    topology = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": metadata,
    }
    levels, members = (
        [{"domain": "host", "key": HOSTNAME, "nodeLabel": HOSTNAME}],
        [member("Node", NOBODY)],
    )
    spec = {"levels": levels, "tier": 1, "members": members}
    writes = {"a ClusterTopology that belongs to no segment": create(PATH, topology, MANAGER)}
    served = discover(client, PUBLISHED)
    for kind in PUBLISHED:
        if version := served.version(kind):
            target = kind.target(NOBODY, version)
            body = {
                "apiVersion": target.api_version,
                "kind": kind.kind,
                "metadata": metadata,
                "spec": spec,
            }
            query = {"fieldManager": MANAGER, "fieldValidation": "Ignore"}
            writes[f"a topology among {kind.name}"] = Request(
                "POST", target.collection, query, compact(body).encode()
            )
    node = {"apiVersion": "v1", "kind": "Node", "name": NOBODY}
    report = event(node, "Normal", "Unconfined", "", "another", pod, datetime.now(UTC))
    return {**writes, "an Event in another's name": report}


class ConfinementCheck:
    """Checks in a thread of its own until `stop` is set, also in a follower, whose token is the same.

    Not if `active` is false: then the program counts as ready.
    """

    def __init__(self, client: ApiClient, pod: str, stop: Event, *, active: bool) -> None:
        self._client = client
        self._pod = pod
        self._stop = stop
        rights = AccountRights(RIGHTS, client.namespace)
        self._confinement = Confinement(client, lambda: foreign_writes(client, pod), rights)
        self._active = active

    def ready(self) -> str:
        """Why the program must not count as ready."""
        return self._confinement.ready() if self._active else ""

    def confined(self) -> bool | None:
        """Whether the policies refuse what they must; None while that is not known."""
        return self._confinement.confined

    def start(self) -> None:
        """Begin."""
        if self._active:
            threading.Thread(target=self._run, name="confinement", daemon=True).start()

    def _run(self) -> None:
        while not self._stop.is_set():
            if news := self._confinement.check():
                log.log(
                    logging.WARNING if news[0] == "Warning" else logging.INFO, "%s: %s", *news[1:]
                )
                regarding = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": self._client.namespace,
                    "name": self._pod,
                }
                try:
                    self._client.call(
                        event(regarding, *news, "controller", self._pod, datetime.now(UTC))
                    )
                except KubeError as error:
                    log.warning("cannot record an Event: %s", error)
            self._stop.wait(self._confinement.seconds_until_due())
