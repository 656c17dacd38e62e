"""Whether admission policies and RBAC confine the controller.

For its readiness, a metric and an Event on its pod.
"""

import logging
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.controller.options import LEASE
from toposcope.integrations import binding_paths, node_plan
from toposcope.integrations.framework.published import MANAGER
from toposcope.integrations.registry import PUBLISHED
from toposcope.kube.account_rights import AccountRights, Right
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.confinement import NOBODY, Confinement
from toposcope.kube.discovery import discover
from toposcope.kube.errors import KubeError
from toposcope.kube.requests import create, event
from toposcope.kube.runtime import REAL, Event, Runtime
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
        Right("", "pods", "list"),
        Right("", "pods", "watch"),
        Right("", "configmaps", "get", (node_plan.CONFIG_MAP,)),
        Right("", "configmaps", "create", (node_plan.CONFIG_MAP,)),
        Right("", "configmaps", "patch", (node_plan.CONFIG_MAP,)),
        # With the component binding-labels.
        Right("gpu.topology", "nodepaths", "create", (binding_paths.NAME,)),
        Right("gpu.topology", "nodepaths", "patch", (binding_paths.NAME,)),
        Right("gpu.topology", "nodepaths", "delete", (binding_paths.NAME,)),
        Right("coordination.k8s.io", "leases", "create"),
        Right("coordination.k8s.io", "leases", "get", (LEASE,)),
        Right("coordination.k8s.io", "leases", "update", (LEASE,)),
    }
)
"""What RBAC may grant the controller of what is looked at: no write of a Node, which no policy
would confine."""


def foreign_writes(client: ApiClient, pod: str, runtime: Runtime = REAL) -> dict[str, Request]:
    """Writes that the admission policies must refuse: what each would do, and its request.

    There is one for each served kind that schedulers read. It has the fields of all kinds: what
    breaks a schema is refused before policies are asked, and fields that a schema lacks are
    ignored. Raises KubeError.
    """
    metadata = {"name": NOBODY}
    topology = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
    writes = {"a ClusterTopology that belongs to no segment": create(PATH, topology, MANAGER)}
    spec: dict[str, Any] = {}
    for kind in PUBLISHED:
        spec |= kind.example
    query = {"fieldManager": MANAGER, "fieldValidation": "Ignore"}
    served = discover(client, PUBLISHED)
    for kind in PUBLISHED:
        version = served.version(kind)
        if not version:
            continue
        target = kind.target(NOBODY, version)
        document = {
            "apiVersion": target.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            "spec": spec,
        }
        body = compact(document).encode()
        request = Request("POST", target.collection, query, body)
        writes[f"a topology among {kind.name}"] = request
    node = {"apiVersion": "v1", "kind": "Node", "name": NOBODY}
    now = runtime.now()
    report = event(node, "Normal", "Unconfined", "", "another", instance=pod, now=now)
    return {**writes, "an Event in another's name": report}


class ConfinementCheck:
    """Checks in a thread of its own until `stop` is set.

    A follower checks too, because its token is the same. If `is_active` is false nothing is
    checked, and the program counts as ready.
    """

    def __init__(
        self, client: ApiClient, stop: Event, runtime: Runtime = REAL, *, is_active: bool
    ) -> None:
        self._client = client
        self._pod = runtime.host()
        self._stop = stop
        self._runtime = runtime
        rights = AccountRights(RIGHTS, client.namespace)
        self._confinement = Confinement(client, self._foreign_writes, rights, runtime)
        self._is_active = is_active

    def ready(self) -> str:
        """Why the program must not count as ready."""
        return self._confinement.ready() if self._is_active else ""

    def is_confined(self) -> bool | None:
        """Whether the policies refuse what they must; None while that is not known."""
        return self._confinement.is_confined

    def start(self) -> None:
        """Begin."""
        if self._is_active:
            self._runtime.thread("confinement", self._run)

    def _foreign_writes(self) -> dict[str, Request]:
        return foreign_writes(self._client, self._pod, self._runtime)

    def _run(self) -> None:
        while not self._stop.is_set():
            news = self._confinement.check()
            if news:
                kind, reason, note = news
                severity = logging.WARNING if kind == "Warning" else logging.INFO
                log.log(severity, "%s: %s", reason, note)
                self._record(kind, reason, note)
            self._stop.wait(self._confinement.seconds_until_due())

    def _record(self, kind: str, reason: str, note: str) -> None:
        """Record an Event on the controller's pod."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": self._client.namespace,
            "name": self._pod,
        }
        now = self._runtime.now()
        try:
            request = event(pod, kind, reason, note, "controller", instance=self._pod, now=now)
            self._client.call(request)
        except KubeError as error:
            log.warning("cannot record an Event: %s", error)
