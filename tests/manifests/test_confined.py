"""A program notices that it is confined no longer: whichever policy or binding is gone, whatever right it was given."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.support import NAMESPACE, Manifests, apply_folder, built, write_overlay
from tests.support.api import RBAC, ApiUnderTest, pod_token, wait_until
from tests.support.publishing import install
from toposcope.agent import publish as agent
from toposcope.controller import confinement as controller
from toposcope.kube.account_rights import AccountRights
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.confinement import Confinement
from toposcope.switches import publish as switches

pytestmark = pytest.mark.real_api("RBAC, TokenRequest and admission policies")

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
MOST_REQUESTS = 8
"""Of one check, which each agent makes once an hour."""
WRITERS_OF_NODES = ("agent", "switches")
PROGRAMS = (*WRITERS_OF_NODES, "controller")
SCHEDULERS = ("grove-clustertopologybindings-alpha10", "kueue-topologies-v0.19")
"""A kind is enough for the policy of what is published."""
Writes = Callable[[], dict[str, Request]]


class Counting:
    """A client that counts its requests."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.requests = 0

    def call(self, request: Request) -> Any:
        self.requests += 1
        return self._client.call(request)


@dataclass
class Program:
    """One of the programs with its token, and what it writes to learn whether it is confined."""

    name: str
    client: ApiClient
    writes: Writes
    rights: AccountRights

    def problem(self) -> str:
        """Why it is not ready, found by a first check."""
        confinement = Confinement(self.client, self.writes, self.rights)
        confinement.check()
        assert confinement.confined == (not confinement.ready())
        return confinement.ready()


@dataclass
class Cluster:
    """An API server with each program, agent and switches on one Node."""

    api: ApiUnderTest
    manifests: Manifests
    programs: dict[str, Program]

    def policies(self, program: str) -> list[tuple[str, dict[str, Any]]]:
        """Every policy that confines a program and its binding, with the path of each."""
        found = []
        for item in self.manifests:
            if item["kind"] in PLURALS and item["metadata"]["name"].startswith(f"toposcope-{program}"):
                path = f"{ADMISSION}/{PLURALS[item['kind']]}"
                found.append((path, item))
        return found


@pytest.fixture(scope="module")
def cluster(installed_once: ApiUnderTest, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    api = installed_once
    overlay = write_overlay(tmp_path_factory.mktemp("confined").resolve() / "overlay", ["switches"])
    apply_folder(api, kubectl, overlay)
    install(api, *SCHEDULERS)
    rights.make_node(api, rights.OWN)
    manifests = built(kubectl, overlay)
    clients = []

    def client(program: str) -> ApiClient:
        pod = api.create(f"{NAMESPACE}/pods", manifests.pod(program, f"a-{program}", nodeName="confined-own"))
        folder: Path = tmp_path_factory.mktemp(program)
        clients.append(ApiClient(load(str(rights.kubeconfig_with(api, pod_token(api, pod), folder)))))
        return clients[-1]

    agents, others, controllers = (client(program) for program in PROGRAMS)
    programs = {
        "agent": Program(
            "agent",
            agents,
            agent.Publisher(agents, "confined-own").foreign_writes,
            AccountRights(agent.RIGHTS, "toposcope-system"),
        ),
        "switches": Program(
            "switches",
            others,
            switches.Publisher(others, "confined-own").foreign_writes,
            AccountRights(switches.RIGHTS, "toposcope-system"),
        ),
        "controller": Program(
            "controller",
            controllers,
            functools.partial(controller.foreign_writes, controllers, "a-controller"),
            AccountRights(controller.RIGHTS, "toposcope-system"),
        ),
    }
    cluster = Cluster(api, manifests, programs)
    for program in programs.values():
        wait_until(lambda program=program: not program.problem(), f"{program.name} is confined")  # type: ignore[misc]
    yield cluster
    for each in clients:
        each.close()


@pytest.mark.parametrize("name", WRITERS_OF_NODES)
def test_whole_check_takes_few_requests(cluster: Cluster, name: str) -> None:
    program = cluster.programs[name]
    counting = Counting(program.client)
    Confinement(counting, program.writes, program.rights).check()
    assert counting.requests <= MOST_REQUESTS


@pytest.mark.regression
@pytest.mark.parametrize("name", PROGRAMS)
def test_whichever_policy_or_binding_is_gone_it_is_noticed(cluster: Cluster, name: str) -> None:
    api, program = cluster.api, cluster.programs[name]
    policies = cluster.policies(name)
    assert len(policies) == {"agent": 4, "switches": 2, "controller": 6}[name]
    for path, item in policies:
        gone = f"{path}/{item['metadata']['name']}"
        assert api.request("DELETE", gone)[0] == 200
        wait_until(lambda: "do not confine this program" in program.problem(), f"{gone} is missed")
        api.create(path, item)
        wait_until(lambda: not program.problem(), f"{gone} is back")


@pytest.mark.parametrize("name", WRITERS_OF_NODES)
def test_softened_policy_is_noticed_and_each_kind_of_write_is_named(cluster: Cluster, name: str) -> None:
    """Only the rules about whose Node it is are left: most kinds of write are refused by two rules of the others."""
    api, program = cluster.api, cluster.programs[name]
    path = f"{ADMISSION}/validatingadmissionpolicies/toposcope-{name}.gpu.topology"
    whole = api.get(path)["spec"]["validations"]
    api.patch(path, {"spec": {"validations": whole[:3]}})
    kinds = [kind for kind in program.writes() if kind != "an Event about another Node"]
    assert len(kinds) == 6
    wait_until(lambda: all(kind in program.problem() for kind in kinds), "each kind is named")
    api.patch(path, {"spec": {"validations": whole}})
    wait_until(lambda: not program.problem(), "the policy is whole again")


@pytest.mark.regression
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}, "get secrets"),
        ({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}, "patch nodes/status"),
        ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["update"]}, "update nodes"),
        ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}, "delete nodes"),
        ({"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["patch"]}, "patch daemonsets.apps"),
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, "do anything with all resources"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_right_too_much_is_noticed_and_named(cluster: Cluster, name: str, rule: dict[str, Any], named: str) -> None:
    api, program = cluster.api, cluster.programs[name]
    metadata = {"name": "toposcope-too-much", "labels": {"app.kubernetes.io/part-of": "toposcope"}}
    role = {"apiVersion": RBAC.removeprefix("/apis/"), "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}
    subject = {"kind": "ServiceAccount", "namespace": "toposcope-system", "name": f"toposcope-{name}"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "toposcope-too-much"}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": ref, "subjects": [subject]}
    del binding["rules"]
    api.create(f"{RBAC}/clusterroles", role)
    api.create(f"{RBAC}/clusterrolebindings", binding)
    try:
        wait_until(lambda: named in program.problem(), f"{named} is noticed")
        assert "may do more than the program needs" in program.problem()
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            assert api.request("DELETE", f"{RBAC}/{plural}/toposcope-too-much")[0] == 200
    wait_until(lambda: not program.problem(), f"{named} is gone")
