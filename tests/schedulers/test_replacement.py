"""A Topology that a running Kueue holds is replaced once its flavor is gone."""

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from tests.schedulers import clusters
from tests.support import controller
from tests.support.api import ApiUnderTest, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.publishing import FOUR, THREE, Time, found, node_labels, spec_levels
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load

pytestmark = pytest.mark.slow

OURS = "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
SPEC = {"nodeLabels": {"example.com/pool": "gpu"}, "topologyName": "cluster"}
FLAVOR = clusters.made("ResourceFlavor", "gpu", SPEC)


def test_topology_is_replaced_once_its_flavor_is_gone(bare_kueue: ApiUnderTest) -> None:
    api = bare_kueue
    controller.share_crd(api)
    controller.make_node(api, "n0", {ZONE: "z", BLOCK: "b", RACK: "r"})
    controller.make_topology(api, levels=spec_levels(*FOUR))
    client = ApiClient(load(str(api.kubeconfig)))
    options = replace(controller.OPTIONS, debounce=1.0)
    with contextlib.closing(client), controller.running(controller.full_controller(client, Time(), options)):
        wait_until(lambda: found(api, OURS) is not None, "the Topology is written")
        old = api.get(OURS)
        api.create(FLAVORS, FLAVOR)
        controller.edit_topology(api, levels=spec_levels(*THREE))
        wait_until(lambda: "ResourceFlavor gpu" in str(controller.condition(api, "Published")), "the flavor holds it")

        code, _ = api.request("DELETE", f"{FLAVORS}/gpu")
        assert code == 200
        wait_until(lambda: uid(found(api, OURS) or old) != uid(old), "it is replaced")
        api.create(FLAVORS, FLAVOR)
    assert node_labels(api, OURS) == THREE


def uid(obj: Any) -> str:
    return str(obj["metadata"]["uid"])
