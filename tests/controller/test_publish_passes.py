"""Publishing over passes of the whole controller: what is refused is not asked for again with every one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tests.support.api import ApiUnderTest
from tests.support.cluster import BLOCK, RACK, START, ZONE
from tests.support.controller import condition, controller_of, make_node, make_topology
from tests.support.publishing import BINDINGS, Time, WatchedClient, backoff_on, found, install, install_narrowed, patch
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import HOSTNAME
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.run import make_publishers
from toposcope.kube.client import ApiClient, Request
from toposcope.simulator import manifests

LEVELS = [{"domain": d, "key": k} for d, k in (("zone", ZONE), ("block", BLOCK), ("rack", RACK), ("host", HOSTNAME))]


@pytest.mark.real_api("limits of a list")
def test_a_binding_that_grove_s_server_refuses_is_tried_ever_more_rarely_over_passes(
    api: ApiUnderTest, clients: Callable[[], ApiClient]
) -> None:
    api.install_crd(manifests.cluster_topology_crd())
    install(api, "kai-topologies-v0.17")
    install_narrowed(api, "grove-clustertopologybindings-alpha10", most=3)
    make_node(api, "n0", {ZONE: "z", BLOCK: "b", RACK: "r"})
    make_topology(api, levels=LEVELS, publish={"kai": "Never"})
    time = Time()
    attempts: list[float] = []
    statuses: list[float] = []

    def before(request: Request) -> None:
        if request.method != "GET":
            (attempts if request.path.startswith(BINDINGS) else statuses).append(time.seconds)

    client = WatchedClient(clients(), before)
    backoff = backoff_on(client, time)
    reconciler = Reconciler(cast("ApiClient", client), make_publishers(backoff), time, lambda: START, backoff=backoff)
    controller = controller_of(clients(), reconciler)

    for time.seconds in range(0, 500, 30):
        controller.once()
    assert attempts == [0, 30, 90, 210, 450]
    assert statuses == attempts  # each has the time of the next
    published = condition(api, "Published")
    assert published["reason"] == "Rejected"
    assert "must have at most 3 items" in published["message"]
    assert found(api, f"{BINDINGS}/cluster") is None
    # The next look is due with the next attempt, and an edit by the admin is one at once.
    topology = controller.topologies.items()
    assert reconciler.next_deadline(topology) == 450 + 480 - 480
    patch(api, f"{PATH}/cluster", {"spec": {"levels": LEVELS[1:]}})
    controller.once()
    assert (attempts[-1], len(attempts)) == (480, 6)
    assert api.get(f"{BINDINGS}/cluster")["spec"]["levels"] == LEVELS[1:]
