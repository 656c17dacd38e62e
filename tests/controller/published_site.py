"""Publishers and the controller's passes on an API server that serves other projects' CRDs, at times a test chooses."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.support import publishing
from tests.support.api import NODES, ApiUnderTest
from tests.support.cluster import topology
from tests.support.controller import controller_of, make_node
from tests.support.publishing import BINDINGS, FOUR, KAI
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.controller.loop import Controller
from toposcope.controller.publishing.dry_run import PublishersDryRun
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.integrations import registry
from toposcope.integrations.framework.published import Published
from toposcope.integrations.framework.publishing.publisher import PublishSettings
from toposcope.kube.client import ApiClient, Request

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
OLDER_BINDINGS = "/apis/grove.io/v1alpha1/clustertopologies"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"

KAI_CLUSTER = f"{KAI}/cluster"
KUEUE_CLUSTER = f"{KUEUE}/cluster"
BINDING = f"{BINDINGS}/cluster"
TOPOLOGY = f"{PATH}/cluster"

KAI_CRD = "kai-topologies-v0.17"
KUEUE_CRD = "kueue-topologies-v0.19"
FLAVORS_CRD = "kueue-resourceflavors-v0.19"
GROVE_CRD = "grove-clustertopologybindings-alpha10"
VOLCANO_CRD = "volcano-hypernodes-v1.14"

OURS = {"app.kubernetes.io/managed-by": "toposcope"}
KAI_ENTRY = {"schedulerName": "kai-scheduler", "topologyReference": "cluster"}
"""How a binding names the KAI Topology that others write."""


class Site:
    """Publishers as a pass asks them, and what they write."""

    def __init__(self, api: ApiUnderTest, client: ApiClient, delay: float = 30.0) -> None:
        """`delay`: seconds that levels of KAI and Kueue must have been wanted for."""
        self.api = api
        self.time = publishing.Time()
        self.before: Callable[[Request], None] = lambda _: None
        """Hears of each request first; what it raises takes the request's place."""
        self.writes: list[str] = []
        """All so far."""
        self.seconds_per_write = 0.0
        self.binding_schedulers: tuple[str, ...] | None = None
        """`spec.bindingSchedulers`."""
        self._held = contextlib.ExitStack()
        self._client = client
        watched = publishing.WatchedClient(client, self._note)
        self._publishing = registry.publishing(PublishSettings(runtime=self.time, delay=delay))
        self._dry_run = PublishersDryRun(watched, self._publishing.dry_run_publishers, self.time)
        through = publishing.backoff_on(watched, self.time)
        publishers = {}
        for publisher in self._publishing.publishers(through):
            publishers[publisher.name] = publisher
        self._publishers = publishers

    def _note(self, request: Request) -> None:
        self.before(request)
        is_trial = request.query.get("dryRun") == "All"
        if request.method == "GET" or is_trial:
            return
        _, resource, _ = request.path.rsplit("/", 2)
        self.writes.append(f"{request.method} {resource}")
        self.time.seconds += self.seconds_per_write

    def advance(self, seconds: float) -> None:
        self.time.seconds += seconds

    def serve(self, *crds: str) -> None:
        """Have the server serve CRDs of other projects."""
        publishing.install(self.api, *crds)

    def serve_narrowed(self, crd: str, most_levels: int) -> None:
        """Install the CRD with a lower limit on levels."""
        publishing.install_narrowed(self.api, crd, most_levels)

    def serves(self, publisher: str) -> bool:
        """Whether the server serves what a publisher writes."""
        return self._publishers[publisher].served()

    def hold(self, path: str, finalizer: str) -> None:
        """Put a finalizer on an object."""
        self._held.enter_context(publishing.finalizer(self.api, path, finalizer))

    def release(self) -> None:
        """Take all finalizers away."""
        self._held.close()

    def ask(
        self,
        *publishers: str,
        levels: tuple[str, ...] = FOUR,
        modes: Mapping[str, str] | None = None,
    ) -> list[Published]:
        """What comes of asking publishers whose kinds are served.

        `modes` is `spec.publish`; a publisher whose mode is Never takes back, and says nothing where nothing is left.
        """
        modes = modes or {}
        wanted = replace(topology(publish=modes), binding_schedulers=self.binding_schedulers)
        results = []
        for name, publisher in self._publishers.items():
            if name not in publishers or not publisher.served():
                continue
            if modes.get(name) == "Never":
                result = publisher.retract(wanted)
            else:
                result = publisher.publish(wanted, publishing.levels(*levels))
            if result:
                results.append(result)
        return results

    def publish(
        self,
        *publishers: str,
        levels: tuple[str, ...] = FOUR,
        modes: Mapping[str, str] | None = None,
    ) -> list[Published]:
        """Ask publishers, after which all must be in sync."""
        results = self.ask(*publishers, levels=levels, modes=modes)
        pending = [result for result in results if not result.is_in_sync]
        assert pending == [], "a publisher is not in sync"
        return results

    def pending(
        self,
        *publishers: str,
        levels: tuple[str, ...] = FOUR,
        modes: Mapping[str, str] | None = None,
    ) -> Published:
        """Ask publishers, after which exactly one is not in sync: its outcome."""
        results = self.ask(*publishers, levels=levels, modes=modes)
        pending = [result for result in results if not result.is_in_sync]
        assert len(pending) == 1, f"not exactly one publisher is out of sync: {results}"
        return pending[0]

    def dry_run(
        self, publisher: str, levels: tuple[str, ...] = FOUR, modes: Mapping[str, str] | None = None
    ) -> Published | None:
        """What a dry run of a publisher shows; None where there is nothing to take back."""
        modes = modes or {}
        wanted = topology(publish=modes)
        if modes.get(publisher) == "Never":
            return self._dry_run.retract(publisher, wanted)
        return self._dry_run.publish(publisher, wanted, publishing.levels(*levels))

    @functools.cached_property
    def controller(self) -> Controller:
        """One that begins with the first pass."""
        publishers = tuple(self._publishers.values())
        wiring = Wiring(
            self._client,
            publishers,
            self.time,
            dry_run=self._dry_run,
            publishing=self._publishing,
        )
        return controller_of(self._client, Reconciler(wiring))

    def run_passes(self, *seconds_before: float) -> None:
        """Run passes of the controller, each after a pause in seconds."""
        for seconds in seconds_before:
            self.time.seconds += seconds
            self.controller.once()

    def make_nodes(self, nodes: Mapping[str, dict[str, str]]) -> None:
        """Create ready nodes of 8 GPUs with an agent, with labels by name."""
        for name, labels in nodes.items():
            make_node(self.api, name, labels)

    def delete(self, path: str) -> None:
        code, body = self.api.request("DELETE", path)
        assert code == 200, body

    def delete_nodes(self, *names: str) -> None:
        for name in names:
            self.delete(f"{NODES}/{name}")

    def has(self, path: str) -> bool:
        """Whether there is an object at a path."""
        return publishing.found(self.api, path) is not None

    def levels(self, path: str) -> list[dict[str, Any]]:
        """The levels in the spec of an object."""
        levels: list[dict[str, Any]] = self.api.get(path)["spec"]["levels"]
        return levels

    def names(self, collection: str) -> list[str]:
        """The names of all objects of a collection, sorted."""
        items = self.api.get(collection)["items"]
        return sorted(item["metadata"]["name"] for item in items)

    def entries(self) -> list[dict[str, str]] | None:
        """How the binding names the topologies of schedulers; None where it has no such list."""
        entries: list[dict[str, str]] | None = self.api.get(BINDING)["spec"].get("schedulerTopologyBindings")
        return entries

    def owner_kind(self, path: str) -> str:
        """The kind of an object's first owner."""
        kind: str = self.api.get(path)["metadata"]["ownerReferences"][0]["kind"]
        return kind

    def uid(self, path: str) -> str:
        uid: str = self.api.get(path)["metadata"]["uid"]
        return uid


def labelled(*keys: str) -> list[dict[str, str]]:
    """Levels as Topologies of KAI and Kueue have them."""
    return [{"nodeLabel": key} for key in keys]


FOUR_LEVELS = labelled(*FOUR)
THREE_LEVELS = labelled(*publishing.THREE)


def owned_by_cluster(uid: str = "uid-cluster") -> dict[str, Any]:
    """Metadata of what this project makes for the ClusterTopology `cluster`."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": "cluster",
        "uid": uid,
    }
    return {"labels": OURS, "ownerReferences": [owner]}


def resource_flavor(name: str, **spec: str) -> dict[str, Any]:
    """A ResourceFlavor of Kueue for nodes of one pool."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": {"example.com/pool": "gpu"}, **spec},
    }
