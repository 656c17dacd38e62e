"""What tests of publishers share: other projects' CRDs, levels, what is found afterwards."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from tests.support.api import CRDS, ApiUnderTest
from tests.support.cluster import BLOCK, RACK, START, ZONE
from tests.support.upstream_crds import stand_in, upstream_crd
from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import Level
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.integrations import registry
from toposcope.integrations.framework.publishing.publisher import Publisher, PublishSettings
from toposcope.kube.client import ApiClient, Caller, Request
from toposcope.kube.runtime import Runtime

BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
KAI = "/apis/kai.scheduler/v1alpha1/topologies"

_DOMAINS = {ZONE: "zone", BLOCK: "block", RACK: "rack", HOSTNAME: "host"}
FOUR = (ZONE, BLOCK, RACK, HOSTNAME)
THREE = (ZONE, RACK, HOSTNAME)

PUBLISHED = {
    "/apis/grove.io/v1alpha1/clustertopologybindings": "ClusterTopologyBinding",
    "/apis/grove.io/v1alpha1/clustertopologies": "ClusterTopology",
    "/apis/kai.scheduler/v1alpha1/topologies": "Topology",
    "/apis/kueue.x-k8s.io/v1beta2/topologies": "Topology",
    "/apis/topology.volcano.sh/v1alpha1/hypernodes": "HyperNode",
}
"""Collections of what the controller publishes or takes back, with their kinds."""


class Time(Runtime):
    """A machine on which only tests move time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    monotonic = boot_time = __call__

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def rng(self) -> random.Random:
        return random.Random(7)


class WatchedClient:
    """A client that tells `before` of each request first; what that raises takes the request's place."""

    def __init__(self, client: ApiClient, before: Callable[[Request], None]) -> None:
        self._client = client
        self._before = before

    def call(self, request: Request) -> Any:
        self._before(request)
        return self._client.call(request)


class Least(random.Random):
    """No jitter."""

    def uniform(self, a: float, b: float) -> float:
        return min(a, b)


class _Jittered(Runtime):
    """A machine on the test's time, with a source of jitter of its own."""

    def __init__(self, time: Time, rng: random.Random) -> None:
        self._time = time
        self._rng = rng

    def monotonic(self) -> float:
        return self._time.seconds

    def now(self) -> datetime:
        return self._time.now()

    def rng(self) -> random.Random:
        return self._rng


def backoff_on(client: Caller, time: Time, rng: random.Random | None = None) -> WriteBackoff:
    """A client that holds refused writes back, at times that tests choose."""
    return WriteBackoff(client, _Jittered(time, rng or Least()))


def make_publishers(time: Time) -> Callable[[Caller], Sequence[Publisher]]:
    """A factory of all publishers, which wait for nothing."""
    return registry.publishing(PublishSettings(runtime=time)).dry_run_publishers


def levels(*keys: str) -> tuple[Level, ...]:
    """Levels with these keys, each with its usual domain."""
    named = []
    for key in keys:
        name = key.rpartition("/")[2]
        domain = _DOMAINS.get(key, name)
        named.append(Level(domain, key))
    return tuple(named)


def spec_levels(*keys: str) -> list[dict[str, str]]:
    """The same as `spec.levels` has them."""
    return [{"domain": level.domain, "key": level.key} for level in levels(*keys)]


def kai_topology(*keys: str, **metadata: Any) -> dict[str, Any]:
    """KAI's Topology `cluster` with these levels, as others write it."""
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "cluster", **metadata},
        "spec": {"levels": [{"nodeLabel": key} for key in keys]},
    }


def kueue_topology(*keys: str) -> dict[str, Any]:
    """Kueue's Topology `cluster` with these levels, as others write it."""
    return kai_topology(*keys) | {"apiVersion": "kueue.x-k8s.io/v1beta2"}


def binding(*pairs: tuple[str, str], kind: str = "ClusterTopologyBinding", **spec: Any) -> dict[str, Any]:
    """Grove's binding `cluster` with these levels, as others write it."""
    levels = pairs or (("rack", RACK),)
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "cluster"},
        "spec": {
            "levels": [{"domain": domain, "key": key} for domain, key in levels],
            **spec,
        },
    }


def made_by_grove(uid: str, kind: str = "ClusterTopologyBinding") -> list[dict[str, Any]]:
    """The ownerReferences of a KAI Topology that Grove makes of `cluster`."""
    reference = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": kind,
        "name": "cluster",
        "uid": uid,
        "controller": True,
    }
    return [reference]


def install(api: ApiUnderTest, *names: str) -> None:
    """Serve other projects' CRDs."""
    _serve(api, [upstream_crd(name) for name in names])


def _serve(api: ApiUnderTest, crds: Sequence[dict[str, Any]]) -> None:
    for crd in crds:
        api.create(CRDS, crd)
    for crd in crds:  # a real server settles them side by side
        api.settled_crd(crd["metadata"]["name"])


def install_narrowed(api: ApiUnderTest, name: str, most: int) -> None:
    """Serve a CRD that takes at most `most` levels."""
    crd = upstream_crd(name)
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        spec = schema["properties"]["spec"]
        levels = spec["properties"]["levels"]
        levels["maxItems"] = most
    api.install_crd(crd)


def found(api: ApiUnderTest, path: str) -> dict[str, Any] | None:
    """The document at a path, None when it is not there."""
    code, body = api.request("GET", path)
    if code == 404:
        return None
    assert code == 200, body
    return body


def node_labels(api: ApiUnderTest, path: str) -> tuple[str, ...]:
    """The levels of a Topology that must be there."""
    topology = api.get(path)
    keys = []
    for level in topology["spec"]["levels"]:
        keys.append(level["nodeLabel"])
    return tuple(keys)


@contextmanager
def finalizer(api: ApiUnderTest, path: str, name: str) -> Iterator[None]:
    """Hold an object, and let go of it at the end: nothing else here would, and its CRD could not be removed."""
    api.patch(path, {"metadata": {"finalizers": [name]}})
    try:
        yield
    finally:
        if found(api, path):
            api.patch(path, {"metadata": {"finalizers": []}})


def serve_all(api: ApiUnderTest) -> None:
    """Have the API server serve all that is published, and the flavors that may hold one of them, with any spec."""
    kinds = PUBLISHED | {"/apis/kueue.x-k8s.io/v1beta2/resourceflavors": "ResourceFlavor"}
    crds = []
    for path, kind in kinds.items():
        group, version, plural = path.removeprefix("/apis/").split("/")
        crds.append(stand_in(group, version, kind, plural, is_namespaced=False))
    _serve(api, crds)


def published(path: str, name: str, **metadata: Any) -> dict[str, Any]:
    """An object of one of the kinds; without labels and owners it is somebody else's."""
    api_version, _, _ = path.removeprefix("/apis/").rpartition("/")
    return {
        "apiVersion": api_version,
        "kind": PUBLISHED[path],
        "metadata": {"name": name, **metadata},
        "spec": {"levels": [{"nodeLabel": HOSTNAME}]},
    }
