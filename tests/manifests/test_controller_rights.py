"""What the token of the controller may do on a real API server, and what it may not."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.manifests import rights
from tests.manifests.support import TOPOLOGIES
from tests.support.api import ApiUnderTest, wait_until

LEASE = f"{rights.PLACES['LEASES']}/toposcope-controller"
KINDS = rights.grants("controller")
PLAIN_EVENTS = "Events of the controller name no related object"
# Larger than what every watch of Events should carry.
HUGE = {"metadata": {"annotations": {"a": "x" * 250_000}}}
WORKLOAD = rights.event("a.9", kind="Pod", about="trainer", by="gpu.topology/controller", **HUGE)
MAY_NOT = (
    *rights.attempts("controller", "may not"),
    rights.Attempt("put annotations into an Event", "POST", rights.EVENTS, WORKLOAD, says=PLAIN_EVENTS),
    *rights.attempts("anyone", "may not", "toposcope-controller"),
)


@pytest.fixture(scope="module")
def token(installed_once: ApiUnderTest) -> str:
    """A token of the controller, on a cluster with two Nodes, a segment's topology and an Event of the kubelet."""
    api = installed_once
    for path in (rights.OWN, rights.OTHER):
        rights.make_node(api, path)
    for there in rights.attempts("controller", "there"):
        api.create(there.path, there.body)
    token = rights.unbound_token(api, "toposcope-controller")
    rights.wait_for(api, rights.attempts("controller", "in force"), token)
    return token


def test_it_may_do_its_work(installed_once: ApiUnderTest, token: str) -> None:
    assert rights.surprises(installed_once, rights.attempts("controller", "may"), token) == {}


@pytest.mark.regression
def test_it_may_do_nothing_else(installed_once: ApiUnderTest, token: str) -> None:
    before = rights.untouched(installed_once)
    assert rights.surprises(installed_once, MAY_NOT, token) == {}
    assert rights.untouched(installed_once) == before


@pytest.mark.usefixtures("token")
def test_the_policies_bind_nobody_else(installed_once: ApiUnderTest) -> None:
    installed_once.create(f"{rights.EVENTS}?dryRun=All", rights.event("a.20", by="kubelet"))
    installed_once.patch(f"{TOPOLOGIES}/cluster?dryRun=All", {"spec": {"required": ["rack"]}})


@pytest.mark.parametrize(("group", "resource"), KINDS)
def test_its_role_names_what_it_needs(installed_once: ApiUnderTest, token: str, group: str, resource: str) -> None:
    assert rights.granted(installed_once, token, group, resource) == KINDS[group, resource]


def test_it_may_elect_itself_and_give_its_lease_back(installed_once: ApiUnderTest, token: str, tmp_path: Path) -> None:
    api = installed_once
    # One that is about to expire: whoever makes a new one waits as long as it lasts.
    api.request("DELETE", LEASE)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "toposcope-controller"}}
    api.create(rights.PLACES["LEASES"], lease | {"spec": {"leaseDurationSeconds": 1}})
    flags = ["--kubeconfig", str(rights.kubeconfig_with(api, token, tmp_path)), "--leader-elect", "--debounce", "0"]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen([sys.executable, "-m", "toposcope.controller", *flags], stdout=log, stderr=log)
    try:
        wait_until(lambda: "conditions" in api.get(f"{TOPOLOGIES}/cluster").get("status", {}), "it writes")
        assert api.get(LEASE)["spec"]["holderIdentity"]
    finally:
        program.terminate()
        code = program.wait(timeout=30)
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert (code, "WARNING" in text) == (0, False), text
    assert api.get(LEASE)["spec"]["holderIdentity"] == ""
