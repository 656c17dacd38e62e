"""A program notices that it is confined no longer: whichever policy or binding is gone, whatever right it was given."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

pytestmark = [pytest.mark.slow, pytest.mark.real_api("RBAC, TokenRequest and admission policies")]

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
POLICIES = {"agent": 4, "switches": 2, "controller": 6}
"""How many policies and bindings confine each program."""
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
        problem = confinement.ready()
        assert confinement.is_confined == (problem == "")
        return problem

    def is_confined(self) -> bool:
        """Whether a first check finds nothing amiss."""
        return self.problem() == ""


@dataclass
class Cluster:
    """An API server with each program, agent and switches on one Node."""

    api: ApiUnderTest
    manifests: Manifests
    programs: dict[str, Program]

    def policies(self, program: str) -> list[tuple[str, dict[str, Any]]]:
        """Every policy that confines a program and its binding, with the path of each."""
        found = []
        for item in self.manifests.of_kind(*PLURALS):
            name = item["metadata"]["name"]
            if name.startswith(f"toposcope-{program}"):
                plural = PLURALS[item["kind"]]
                found.append((f"{ADMISSION}/{plural}", item))
        return found


@pytest.fixture(scope="module")
def cluster(installed_once: ApiUnderTest, kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    api = installed_once
    folder = tmp_path_factory.mktemp("confined").resolve()
    overlay = write_overlay(folder / "overlay", ["switches"])
    apply_folder(api, kubectl, overlay)
    install(api, *SCHEDULERS)
    rights.make_node(api, rights.OWN)
    manifests = built(kubectl, overlay)
    clients = []

    def client(program: str) -> ApiClient:
        pod = manifests.pod(program, f"a-{program}", nodeName="confined-own")
        created = api.create(f"{NAMESPACE}/pods", pod)
        token = pod_token(api, created)
        kubeconfig = rights.kubeconfig_with(api, token, tmp_path_factory.mktemp(program))
        made = ApiClient(load(str(kubeconfig)))
        clients.append(made)
        return made

    agents = client("agent")
    others = client("switches")
    controllers = client("controller")
    programs = {
        "agent": Program(
            "agent",
            agents,
            agent.NodePublisher(agents, "confined-own").foreign_writes,
            AccountRights(agent.RIGHTS, "toposcope-system"),
        ),
        "switches": Program(
            "switches",
            others,
            switches.SwitchesPublisher(others, "confined-own").foreign_writes,
            AccountRights(switches.RIGHTS, "toposcope-system"),
        ),
        "controller": Program(
            "controller",
            controllers,
            functools.partial(controller.foreign_writes, controllers, "a-controller"),
            AccountRights(controller.RIGHTS, "toposcope-system"),
        ),
    }
    for program in programs.values():
        wait_until(program.is_confined, f"{program.name} is confined")
    yield Cluster(api, manifests, programs)
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
def test_missing_policy_or_binding_is_noticed(cluster: Cluster, name: str) -> None:
    api = cluster.api
    program = cluster.programs[name]
    policies = cluster.policies(name)
    assert len(policies) == POLICIES[name]
    for path, item in policies:
        gone = f"{path}/{item['metadata']['name']}"
        code, _ = api.request("DELETE", gone)
        assert code == 200
        wait_until(
            lambda: "do not confine this program" in program.problem(),
            f"{gone} is missed",
        )
        api.create(path, item)
        wait_until(program.is_confined, f"{gone} is back")


@pytest.mark.parametrize("name", WRITERS_OF_NODES)
def test_softened_policy_is_noticed_and_each_kind_of_write_is_named(cluster: Cluster, name: str) -> None:
    """Only the rules about whose Node it is are left: most kinds of write are refused by two rules of the others."""
    api = cluster.api
    program = cluster.programs[name]
    kinds = set(program.writes())
    kinds.discard("an Event about another Node")
    assert len(kinds) == 6

    def all_are_named() -> bool:
        problem = program.problem()
        return all(kind in problem for kind in kinds)

    path = f"{ADMISSION}/validatingadmissionpolicies/toposcope-{name}.gpu.topology"
    policy = api.get(path)
    whole = policy["spec"]["validations"]
    api.patch(path, {"spec": {"validations": whole[:3]}})
    wait_until(all_are_named, "each kind is named")
    api.patch(path, {"spec": {"validations": whole}})
    wait_until(program.is_confined, "the policy is whole again")


@pytest.mark.regression
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("rule", "named"),
    [
        pytest.param(
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
            "get secrets",
            id="get-secrets",
        ),
        pytest.param(
            {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
            "patch nodes/status",
            id="patch-node-status",
        ),
        pytest.param(
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["update"]},
            "update nodes",
            id="update-nodes",
        ),
        pytest.param(
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]},
            "delete nodes",
            id="delete-nodes",
        ),
        pytest.param(
            {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["patch"]},
            "patch daemonsets.apps",
            id="patch-daemonsets",
        ),
        pytest.param(
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            "do anything with all resources",
            id="anything",
        ),
    ],
)
def test_right_too_much_is_noticed_and_named(cluster: Cluster, name: str, rule: dict[str, Any], named: str) -> None:
    api = cluster.api
    program = cluster.programs[name]
    give_right(api, f"toposcope-{name}", rule)
    try:
        wait_until(
            lambda: named in program.problem(),
            f"{named} is noticed",
        )
        assert "may do more than the program needs" in program.problem()
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            code, _ = api.request("DELETE", f"{RBAC}/{plural}/toposcope-too-much")
            assert code == 200
    wait_until(program.is_confined, f"{named} is gone")


def give_right(api: ApiUnderTest, account: str, rule: dict[str, Any]) -> None:
    """Create a role of ours with this rule, and bind it to an account."""
    metadata = {
        "name": "toposcope-too-much",
        "labels": {"app.kubernetes.io/part-of": "toposcope"},
    }
    role = {
        "apiVersion": RBAC.removeprefix("/apis/"),
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [rule],
    }
    api.create(f"{RBAC}/clusterroles", role)
    subject = {
        "kind": "ServiceAccount",
        "namespace": "toposcope-system",
        "name": account,
    }
    binding = {
        "apiVersion": RBAC.removeprefix("/apis/"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "toposcope-too-much",
        },
        "subjects": [subject],
    }
    api.create(f"{RBAC}/clusterrolebindings", binding)
