"""A controller in this process on an API server under test, and the nodes and topologies that it finds there."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml
from prometheus_client import CollectorRegistry
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.paths import CRD
from tests.support.publishing import Time, make_publishers
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.api.label_keys import GPUS, HOSTNAME, NVLINK_DOMAIN
from toposcope.controller.informer import InformerFactory
from toposcope.controller.loop import Controller
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.options import ControllerOptions
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.publishing.dry_run import PublishersDryRun
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.kube.client import ApiClient

OPTIONS = ControllerOptions(kubeconfig=None, once=False, debounce=0.0, metrics_port=None, log_format="text")
READY = {"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": None}


class NoWorkloads:
    """Nothing asks for a level."""

    is_synced = True

    def level_requests(self) -> Mapping[Any, Any]:
        return {}

    bound_requests = by_value = level_requests


def controller_of(
    client: ApiClient,
    reconciler: Reconciler,
    *,
    stop: threading.Event | None = None,
    options: ControllerOptions = OPTIONS,
    registry: CollectorRegistry | None = None,
    published: CachedReader | None = None,
) -> Controller:
    """A controller that has not run yet; `once` makes one pass."""
    metrics = ControllerMetrics(registry or CollectorRegistry())
    return Controller(
        client,
        lambda: reconciler,
        metrics,
        options=options,
        stop=stop or threading.Event(),
        published=published,
    )


def full_controller(client: ApiClient, time: Time, options: ControllerOptions = OPTIONS) -> Controller:
    """A controller with all publishers, reading through the cache, that may also make dry runs."""
    stop = threading.Event()
    published = CachedReader(client, InformerFactory(client, stop))
    dry_run = PublishersDryRun(published, make_publishers(time), time)
    backoff = WriteBackoff(published, time)
    publishers = make_publishers(time)(backoff)
    wiring = Wiring(
        client,
        publishers,
        time,
        cached_reader=published,
        dry_run=dry_run,
        backoff=backoff,
    )
    reconciler = Reconciler(wiring)
    return controller_of(client, reconciler, stop=stop, options=options, published=published)


@contextmanager
def running(controller: Controller) -> Iterator[Controller]:
    """The controller in a thread of its own, ended with the block."""
    thread = threading.Thread(target=controller.run, name="loop")
    thread.start()
    try:
        yield controller
    finally:
        controller.end()
        thread.join()


def share_crd(api: ApiUnderTest) -> None:
    """Have ClusterTopologies served for all tests of the module."""
    api.share_crd(yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader))


def make_topology(api: ApiUnderTest, name: str = "cluster", **spec: Any) -> dict[str, Any]:
    """Create a ClusterTopology."""
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": spec,
    }
    topology: dict[str, Any] = api.create(PATH, document)
    return topology


def edit_topology(api: ApiUnderTest, name: str = "cluster", **spec: Any) -> None:
    """Change some of a ClusterTopology's spec."""
    api.patch(f"{PATH}/{name}", {"spec": spec})


def make_node(api: ApiUnderTest, name: str, labels: dict[str, str]) -> None:
    """Create a ready node of 8 GPUs with an agent.

    A kube-apiserver taints new nodes as not ready; nobody here takes the taint away.
    """
    of_the_agent = {
        HOSTNAME: name,
        GPUS: "8",
        NVLINK_DOMAIN: name,
    }
    created = node(name, labels=of_the_agent | labels)
    api.create(NODES, created)
    status = {
        "conditions": [READY],
        "allocatable": {"nvidia.com/gpu": "8"},
    }
    api.patch(f"{NODES}/{name}/status", {"status": status})


def relabel(api: ApiUnderTest, name: str, labels: dict[str, str | None]) -> None:
    """Change labels of a node; None takes one away."""
    api.patch(f"{NODES}/{name}", {"metadata": {"labels": labels}})


def status_of(api: ApiUnderTest, name: str = "cluster") -> dict[str, Any]:
    """The status of a ClusterTopology, empty before it has one."""
    return api.get(f"{PATH}/{name}").get("status") or {}


def sees_its_status(api: ApiUnderTest, controller: Controller, name: str = "cluster") -> bool:
    """Whether its watch shows the status that is stored; what it wrote and does not see for a minute counts as undone.

    To be waited for before a test lets a minute pass at once.
    """
    for topology in controller.watches.topologies.items():
        if topology.name == name:
            return topology.status == status_of(api, name)
    return False


def condition(api: ApiUnderTest, kind: str, name: str = "cluster") -> dict[str, Any]:
    """A condition of a ClusterTopology, empty before it has it."""
    status = status_of(api, name)
    for entry in status.get("conditions", ()):
        if entry["type"] == kind:
            return dict(entry)
    return {}


def available(api: ApiUnderTest, name: str = "cluster") -> dict[str, Any]:
    """The verdict on its required levels."""
    return condition(api, "TopologyLevelsAvailable", name)
