"""What the token of the controller may do on a real API server, and what it may not."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.controller_attempts import FORBIDDEN, IN_FORCE, LEASE, PRESENT, WORK, lease
from tests.manifests.support import TOPOLOGIES
from tests.support.api import ApiUnderTest, wait_until
from tests.support.paths import MANIFESTS
from toposcope.controller.confinement import RIGHTS
from toposcope.kube.account_rights import Right

PUBLISHED = [
    "clustertopologies.gpu.topology",
    "clustertopologybindings.grove.io",
    "clustertopologies.grove.io",
    "topologies.kai.scheduler",
    "topologies.kueue.x-k8s.io",
]
WORKLOADS = [
    "resourceflavors.kueue.x-k8s.io",
    "dynamographdeployments.nvidia.com",
    "podcliquesets.grove.io",
    "podgroups.scheduling.run.ai",
    "podgroups.scheduling.k8s.io",
    "compositepodgroups.scheduling.k8s.io",
    "workloads.scheduling.k8s.io",
    "workloads.kueue.x-k8s.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "jobsets.jobset.x-k8s.io",
    "jobs.batch",
    "deployments.apps",
    "statefulsets.apps",
]
GRANTS = rights.grants(
    get_create_patch_delete_list_watch=PUBLISHED,
    list_watch=WORKLOADS,
    get_list_watch=["nodes"],
    none=["daemonsets.apps", "pods", "nodes/status", "nodes/proxy", "secrets"],
)
"""The kinds of others need not be served to be asked for."""


@pytest.fixture(scope="module")
def token(installed_once: ApiUnderTest) -> str:
    """A token of the controller, on a cluster with two Nodes, a segment's topology and an Event of the kubelet."""
    api = installed_once
    for path in (rights.OWN, rights.OTHER):
        rights.make_node(api, path)
    for there in PRESENT:
        api.create(there.path, there.body)
    token = rights.unbound_token(api, "toposcope-controller")
    rights.wait_for(api, IN_FORCE, token)
    return token


@pytest.mark.slow
def test_token_may_do_its_work(installed_once: ApiUnderTest, token: str) -> None:
    rights.assert_answers(installed_once, WORK, token)


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.parametrize("kind", FORBIDDEN)
def test_token_may_do_nothing_else(installed_once: ApiUnderTest, token: str, kind: str) -> None:
    before = rights.untouched(installed_once)
    rights.assert_answers(installed_once, FORBIDDEN[kind], token)
    assert rights.untouched(installed_once) == before


@pytest.mark.slow
@pytest.mark.usefixtures("token")
def test_policies_bind_nobody_else(installed_once: ApiUnderTest) -> None:
    installed_once.create(f"{rights.EVENTS}?dryRun=All", rights.event("a.20", by="kubelet"))
    installed_once.patch(f"{TOPOLOGIES}/cluster?dryRun=All", {"spec": {"required": ["rack"]}})


@pytest.mark.slow
@pytest.mark.parametrize(("group", "resource"), GRANTS)
def test_role_names_what_the_controller_needs(
    installed_once: ApiUnderTest, token: str, group: str, resource: str
) -> None:
    assert rights.granted(installed_once, token, group, resource) == GRANTS[group, resource]


def status_of_cluster(api: ApiUnderTest) -> dict[str, Any]:
    """The status of the ClusterTopology, empty before the first pass."""
    return api.get(f"{TOPOLOGIES}/cluster").get("status", {})


@pytest.mark.slow
def test_controller_may_elect_itself_and_give_its_lease_back(
    installed_once: ApiUnderTest, token: str, tmp_path: Path
) -> None:
    api = installed_once
    # One that is about to expire: whoever makes a new one waits as long as it lasts.
    api.request("DELETE", LEASE)
    api.create(rights.LEASES, lease() | {"spec": {"leaseDurationSeconds": 1}})
    command = [
        sys.executable,
        "-m",
        "toposcope.controller",
        "--kubeconfig",
        str(rights.kubeconfig_with(api, token, tmp_path)),
        "--leader-elect",
        "--debounce",
        "0",
    ]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: "conditions" in status_of_cluster(api), "it writes")
        assert api.get(LEASE)["spec"]["holderIdentity"]
    finally:
        program.terminate()
        code = program.wait(timeout=30)
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert code == 0, text
    assert "WARNING" not in text
    assert api.get(LEASE)["spec"]["holderIdentity"] == ""


def test_role_grants_what_the_controller_expects_and_no_more() -> None:
    """What the role grants in its own namespace and the program does not know of, it would call too much."""
    rules = []
    for document in yaml.load_all(
        (MANIFESTS / "base" / "controller-rbac.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
    ):
        if document["kind"] == "Role":
            rules += document["rules"]

    granted = set()
    for rule in rules:
        names = tuple(rule.get("resourceNames", ()))
        for group, resource, verb in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]):
            granted.add(Right(group, resource, verb, names))
    daemon_set = {right for right in granted if right.resource == "daemonsets"}  # not looked at
    assert granted - daemon_set <= RIGHTS
