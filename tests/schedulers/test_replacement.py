"""A Topology that a running Kueue holds is replaced as soon as its flavor is gone: one may be applied again at once."""

import contextlib
import time
from dataclasses import replace
from pathlib import Path

from tests.schedulers import build, programs
from tests.schedulers.conftest import unavailable
from tests.support.api import wait_until
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import (
    OPTIONS,
    condition,
    edit_topology,
    full_controller,
    make_node,
    make_topology,
    running,
    share_crd,
)
from tests.support.publishing import FOUR, THREE, Time, found, node_labels, spec_levels
from tools.apiserver.build import BuildError
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load

OURS = "/apis/kueue.x-k8s.io/v1beta2/topologies/cluster"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "gpu"},
    "spec": {"nodeLabels": {"example.com/pool": "gpu"}, "topologyName": "cluster"},
}


def test_a_topology_is_replaced_within_a_second_of_its_flavor_s_end(folder: Path) -> None:
    try:
        installed = build.kueue()
    except BuildError as error:
        unavailable(error)
    with programs.api_server(folder) as api, programs.kueue(installed, api, folder):
        share_crd(api)
        make_node(api, "n0", {ZONE: "z", BLOCK: "b", RACK: "r"})
        make_topology(api, levels=spec_levels(*FOUR))
        client = ApiClient(load(str(api.kubeconfig)))
        options = replace(OPTIONS, debounce=1.0)
        with contextlib.closing(client), running(full_controller(client, Time(), options)):
            wait_until(lambda: found(api, OURS) is not None, "the Topology is written")
            old = api.get(OURS)
            api.create(FLAVORS, FLAVOR)
            edit_topology(api, levels=spec_levels(*THREE))
            wait_until(lambda: "ResourceFlavor gpu" in str(condition(api, "Published")), "the flavor holds it")
            began = time.monotonic()
            assert api.request("DELETE", f"{FLAVORS}/gpu")[0] == 200
            wait_until(lambda: (found(api, OURS) or old)["metadata"]["uid"] != old["metadata"]["uid"], "it is replaced")
            took = time.monotonic() - began
            api.create(FLAVORS, FLAVOR)
        assert (node_labels(api, OURS), took < 1) == (THREE, True), took
