"""A token that may write a Node changes nothing of others there: not at once, and not with what others do next.

The next apply of a field manager removes what its entry in managedFields names and the apply does not, and any patch
may write managedFields. So writes are generated, for each program and state of a Node. What the API server would accept
is judged by tests/manifests/field_writes.py, and accepted outcomes are also played to their end: every other manager
applies again what it applied before, and then gives it up; others must see what they see without the write.
"""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from tests.manifests import agent_attempts, prune_attempts, rights, switches_attempts
from tests.manifests.field_writes import (
    SLINKY,
    Generator,
    Path,
    Rights,
    Write,
    damage,
    everything,
    fields,
    foreign,
    keys_of,
    managed,
    owned,
)
from tests.manifests.support import NAMESPACE, Manifests, built, run_kubectl, write_overlay
from tests.support.api import MERGE, NODES, ApiUnderTest, node, pod_token
from tests.support.paths import MANIFESTS

pytestmark = [pytest.mark.slow, pytest.mark.real_api("RBAC, TokenRequest and admission policies")]

NAME: Final = "confined-own"
OWN: Final = f"{NODES}/{NAME}"
WRITES: Final = int(os.environ.get("WRITES") or "250")
"""Generated for each program and state; WRITES=2100 in the environment for more."""
PLAYED: Final = 20
"""How many of the accepted outcomes are played to their end."""

PROGRAMS: Final = {
    "agent": Rights(
        "agent",
        managers=("toposcope-agent", "toposcope-agent-nvidia"),
        labels=("gpu.topology/",),
        annotations=("gpu.topology/",),
    ),
    "switches": Rights(
        "switches",
        managers=("toposcope-switches",),
        labels=(),
        annotations=("gpu.topology/switches",),
    ),
    "prune": Rights(
        "prune",
        managers=(
            "toposcope-agent",
            "toposcope-agent-nvidia",
            "toposcope-controller",
            "toposcope-switches",
        ),
        labels=("gpu.topology/", "nvidia.com/gpu.count"),
        annotations=("gpu.topology/", SLINKY),
        only_removes=True,
    ),
}

GITOPS: Final[dict[str, Any]] = {
    "metadata": {
        "labels": {"tenant": "red", "team": "a", "gpu.topology/gpus": "8"},
        "annotations": {"example.com/note": "keep"},
        "finalizers": ["example.com/held"],
    },
    "spec": {"taints": [{"key": "tenant", "value": "red", "effect": "NoSchedule"}]},
}
HELM: Final[dict[str, Any]] = {"metadata": {"labels": {"team": "a"}, "annotations": {}}}
AGENT: Final[dict[str, Any]] = {
    "metadata": {
        "labels": {"gpu.topology/gpus": "8", "gpu.topology/state": "ok"},
        "annotations": {"gpu.topology/matrix": "{}"},
    }
}
SWITCHES: Final[dict[str, Any]] = {"metadata": {"annotations": {"gpu.topology/switches": "{}"}}}
NVIDIA: Final[dict[str, Any]] = {"metadata": {"labels": {"nvidia.com/gpu.count": "8"}}}
CORDON: Final[dict[str, Any]] = {
    "metadata": {"labels": {"isolation.example.com/no-prod": "true", "gpu.topology/rack": "r1"}},
    "spec": {"unschedulable": True},
}
OTHERS: Final[dict[str, dict[str, Any]]] = {"gitops": GITOPS, "helm": HELM}
"""Who applies again, and what."""
ORDINARY: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "agent": (
        AGENT,
        {"metadata": {"labels": {"gpu.topology/gpus": "8"}}},
        {"metadata": {"annotations": {"gpu.topology/matrix": "{}"}}},
    ),
    "switches": (SWITCHES,),
    "prune": (),
}
"""What a program itself may apply: whoever owns a key of a map keeps from going what nobody owns there."""


@dataclass(frozen=True)
class Cluster:
    """An API server with all programs installed, and a pod of each on the Node."""

    api: ApiUnderTest
    pods: dict[str, Any]

    def token(self, program: str) -> str:
        """A token as the program has it on the Node that is there now."""
        if program == "prune":
            return rights.unbound_token(self.api, "toposcope-prune")
        return pod_token(self.api, self.pods[program])

    def fresh(self, state: Callable[[ApiUnderTest], None]) -> dict[str, Any]:
        """The Node, made anew in a state."""
        self.remove()
        self.api.create(NODES, bare())
        state(self.api)
        return self.read()

    def read(self) -> dict[str, Any]:
        """The Node."""
        found: dict[str, Any] = self.api.get(OWN)
        return found

    def remove(self) -> None:
        """Take the Node away, if it is there."""
        without_finalizers = {"metadata": {"finalizers": None}}
        self.api.request(
            "PATCH",
            OWN,
            without_finalizers,
            content_type=MERGE,
        )
        code, _ = self.api.request("DELETE", OWN)
        assert code in {200, 404}


def bare() -> dict[str, Any]:
    """The Node as its kubelet registers it."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "machine",
        "uid": "machine-1",
    }
    document = node(
        NAME,
        labels={"kubernetes.io/hostname": NAME},
        ownerReferences=[owner],
        generateName="confined-",
    )
    document["spec"] = {
        "podCIDR": "10.0.7.0/24",
        "podCIDRs": ["10.0.7.0/24"],
        "providerID": "test://own",
    }
    return document


def apply(api: ApiUnderTest, manager: str, change: dict[str, Any]) -> None:
    """A forced apply by the administrator, under some manager's name."""
    metadata = {"name": NAME, **change.get("metadata", {})}
    body = {**node(NAME), **change, "metadata": metadata}
    code, answer = api.apply(OWN, body, manager, force=True)
    assert code == 200, answer


def tracked(api: ApiUnderTest) -> None:
    """Everybody has written: by apply, by patch, by status; some keys have two owners."""
    for manager, change in OTHERS.items():
        apply(api, manager, change)
    apply(api, "toposcope-agent", AGENT)
    apply(api, "toposcope-switches", SWITCHES)
    apply(api, "toposcope-agent-nvidia", NVIDIA)
    patch(api, "kubectl", CORDON)
    patch(api, "kubelet", {"status": {"capacity": {"cpu": "4"}}}, "/status")


def patch(api: ApiUnderTest, manager: str, change: dict[str, Any], part: str = "") -> None:
    """A merge patch by the administrator, under some manager's name."""
    code, answer = api.request(
        "PATCH",
        f"{OWN}{part}?fieldManager={manager}",
        change,
        content_type=MERGE,
    )
    assert code == 200, answer


def untracked(api: ApiUnderTest) -> None:
    """The same, and then somebody has cleared managedFields, as some tools do."""
    tracked(api)
    api.patch(OWN, {"metadata": {"managedFields": [{}]}})
    assert not managed(api.get(OWN))


def crowded(api: ApiUnderTest) -> None:
    """Ten managers patch the Node: with one more the API server makes one entry of the oldest."""
    tracked(api)
    for number in range(8):
        tool = f"tool-{number}"
        labels = {f"example.com/{tool}": "x"}
        patch(api, tool, {"metadata": {"labels": labels}})


def unowned(api: ApiUnderTest) -> None:
    """Most labels have no owner, and one manager owns the maps: with them, what nobody owns goes."""
    tracked(api)
    kept = []
    for entry in managed(api.get(OWN)):
        spec = entry["fieldsV1"].get("f:spec", {})
        if entry["manager"] == "helm":
            kept.append(entry)
        elif "f:podCIDR" in spec:  # without an owner it would go, which is not allowed
            kept.append({**entry, "fieldsV1": {"f:spec": spec}})
    api.patch(OWN, {"metadata": {"managedFields": kept}})


def lone(api: ApiUnderTest) -> None:
    """Nobody but Toposcope has annotated the Node, which has no label but its own either."""
    api.patch(OWN, {"metadata": {"labels": None}})
    apply(api, "toposcope-agent", AGENT)
    annotations = {"gpu.topology/switches": "old"}
    patch(api, "old-tool", {"metadata": {"annotations": annotations}})


STATES: Final = (tracked, untracked, crowded, unowned, lone)


IN_FORCE = {
    "agent": agent_attempts.IN_FORCE,
    "switches": switches_attempts.IN_FORCE,
    "prune": prune_attempts.IN_FORCE,
}


@pytest.fixture(scope="module")
def cluster(
    installed_once: ApiUnderTest, kubectl: str, base: Manifests, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    api = installed_once
    folder = tmp_path_factory.mktemp("fields").resolve()
    overlay = write_overlay(folder / "overlay", ["switches"])
    for kustomization in (overlay, MANIFESTS / "prune"):
        run_kubectl(
            kubectl,
            "--kubeconfig",
            api.kubeconfig,
            "apply",
            "--server-side",
            "-k",
            kustomization,
        )
    api.create(NODES, bare())
    agent = base.pod("agent", "an-agent", nodeName=NAME)
    switches = built(kubectl, overlay).pod("switches", "a-switches", nodeName=NAME)
    pods = {
        "agent": api.create(f"{NAMESPACE}/pods", agent),
        "switches": api.create(f"{NAMESPACE}/pods", switches),
    }
    cluster = Cluster(api, pods)
    for program in PROGRAMS:
        in_force = []
        for attempt in IN_FORCE[program]:
            if attempt.path.startswith(OWN):
                in_force.append(attempt)
        rights.wait_for(api, in_force, cluster.token(program))
    yield cluster
    cluster.remove()


def timeline(cluster: Cluster, program: Rights) -> list[Any]:
    """What others see of the Node while each of them applies again what it did, and then gives it up."""
    seen = [comparable(cluster.read(), program)]
    for manager, change in OTHERS.items():
        apply(cluster.api, manager, change)
        seen.append(comparable(cluster.read(), program))
    for manager in OTHERS:
        apply(cluster.api, manager, {})
        seen.append(comparable(cluster.read(), program))
    return seen


def comparable(found: dict[str, Any], program: Rights) -> dict[str, Any]:
    """What is not the program's of a Node, and of this life of it."""
    rest = foreign(found, program)
    for field in ("uid", "creationTimestamp"):
        del rest["metadata"][field]
    return rest


def check(cluster: Cluster, program: Rights, state: Callable[[ApiUnderTest], None]) -> None:
    """Generate writes, judge what would be accepted, and play some of the outcomes to their end."""
    rng = random.Random(f"{program.program} {state.__name__}")
    before = cluster.fresh(state)
    token = cluster.token(program.program)
    outcomes: dict[Any, Write] = {}
    for write in Generator(rng, OWN, before).writes(WRITES):
        code, after = write.send(cluster.api, token, dry_run=True)
        if code != 200:
            assert 400 <= code < 500, (code, after, write)
            continue
        done = damage(before, after, program)
        assert done == [], (write, managed(before), managed(after))
        outcomes.setdefault(outcome(after), write)
    assert cluster.read() == before
    assert outcomes, "some writes are allowed"
    accepted = list(outcomes.values())
    expected = controls(cluster, program, state)
    for write in rng.sample(accepted, min(len(accepted), PLAYED)):
        play(cluster, program, state, write, expected)


def controls(cluster: Cluster, program: Rights, state: Callable[[ApiUnderTest], None]) -> list[list[Any]]:
    """What others see if the program writes nothing, or, where fields have no owner, what it writes every day."""
    cluster.fresh(state)
    seen = [timeline(cluster, program)]
    if state is not unowned:
        return seen
    for change in ORDINARY[program.program]:
        cluster.fresh(state)
        apply(cluster.api, program.managers[0], change)
        seen.append(timeline(cluster, program))
    return seen


def outcome(after: dict[str, Any]) -> Any:
    """What tells one result of a write from another."""
    entries = set()
    for manager, members in owned(after).items():
        entries.add((manager, frozenset(members)))
    labels = keys_of(after, "labels")
    annotations = keys_of(after, "annotations")
    return (
        frozenset(entries),
        frozenset(labels.items()),
        frozenset(annotations.items()),
    )


def play(
    cluster: Cluster,
    program: Rights,
    state: Callable[[ApiUnderTest], None],
    write: Write,
    expected: list[list[Any]],
) -> None:
    """Write for real, and see that others see what they would have seen."""
    cluster.fresh(state)
    token = cluster.token(program.program)
    write.send(cluster.api, token)
    assert timeline(cluster, program) in expected, write


@pytest.mark.regression
@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_can_have_another_manager_remove_a_cordon(cluster: Cluster, program: str) -> None:
    """The entry of gitops is given what kubectl wrote: the next unchanged apply of gitops would remove all of it."""
    before = cluster.fresh(tracked)
    token = cluster.token(program)
    entries = {entry["manager"]: entry for entry in managed(before)}
    gitops = entries["gitops"]
    kubectl = entries["kubectl"]
    planted = gitops["fieldsV1"]
    planted["f:spec"] = kubectl["fieldsV1"]["f:spec"]
    labels = planted["f:metadata"]["f:labels"]
    labels["f:isolation.example.com/no-prod"] = {}

    code, answer = send_managed(cluster.api, token, [gitops])

    assert code == 403, answer
    assert "managedFields" in answer["message"]
    apply(cluster.api, "gitops", GITOPS)
    after = cluster.read()
    assert after["spec"]["unschedulable"]
    labels = after["metadata"]["labels"]
    assert labels["isolation.example.com/no-prod"] == "true"


@pytest.mark.regression
@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_can_let_the_first_manager_be_the_only_owner(cluster: Cluster, program: str) -> None:
    """Where managedFields are empty, an entry that does not name all that is there leaves the rest without an owner."""
    before = cluster.fresh(untracked)
    token = cluster.token(program)
    without_one: set[Path] = everything(before)
    without_one.remove(("f:metadata", "f:labels", "f:tenant"))
    only_one: set[Path] = {("f:spec", "f:taints")}
    for members in (without_one, only_one):
        entry = {
            "manager": "before-first-apply",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields(members),
        }
        code, answer = send_managed(cluster.api, token, [entry])
        assert code == 403, answer
        assert "managedFields" in answer["message"]


def send_managed(api: ApiUnderTest, token: str, entries: list[dict[str, Any]]) -> tuple[int, Any]:
    """Write managedFields, and nothing else, by a merge patch."""
    return api.request(
        "PATCH",
        OWN,
        {"metadata": {"managedFields": entries}},
        content_type=MERGE,
        token=token,
    )


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("program", PROGRAMS)
def test_generated_writes_change_nothing_of_others(
    cluster: Cluster, program: str, state: Callable[[ApiUnderTest], None]
) -> None:
    check(cluster, PROGRAMS[program], state)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("program", PROGRAMS)
def test_sequence_of_writes_changes_nothing_of_others(
    cluster: Cluster, program: str, state: Callable[[ApiUnderTest], None]
) -> None:
    check_sequence(cluster, PROGRAMS[program], state, seed=0)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("program", PROGRAMS)
def test_more_sequences_of_writes_change_nothing_of_others(
    cluster: Cluster, program: str, state: Callable[[ApiUnderTest], None], seed: int
) -> None:
    check_sequence(cluster, PROGRAMS[program], state, seed)


def check_sequence(cluster: Cluster, program: Rights, state: Callable[[ApiUnderTest], None], seed: int) -> None:
    """Send 25 writes, each made for what the one before has left."""
    expected = controls(cluster, program, state)
    rng = random.Random(f"{program.program} {state.__name__} {seed}")
    before = cluster.fresh(state)
    token = cluster.token(program.program)
    sent = []
    for _ in range(25):
        write = Generator(rng, OWN, before).write()
        code, _ = write.send(cluster.api, token)
        sent.append((code, write))
        after = cluster.read()
        done = damage(before, after, program)
        assert done == [], sent
        before = after
    assert timeline(cluster, program) in expected, sent
