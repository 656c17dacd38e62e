"""What publishers make of what they find on API servers, step by step: tests/fixtures/published.yaml."""

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support import publishing
from tests.support.api import NODES, ApiUnderTest, Clients, wait_until
from tests.support.cluster import BLOCK, RACK, ZONE, topology
from tests.support.controller import controller_of, make_node, relabel, share_crd
from tests.support.publishing import found, levels
from tests.support.tables import at, rows, says
from tests.support.upstream_crds import upstream_crd
from tools.apiserver.grove_operator import GroveExitError, start_grove
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import HOSTNAME
from toposcope.controller.loop import Controller
from toposcope.controller.publishing.dry_run import DryRun
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.wiring import Wiring
from toposcope.integrations import registry
from toposcope.integrations.framework.published import Published
from toposcope.integrations.framework.publishing.publisher import PublishSettings
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import UnreachableError

KEYS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOSTNAME}
PATHS = {
    "GROVE": "/apis/grove.io/v1alpha1/clustertopologybindings",
    "OLDER": "/apis/grove.io/v1alpha1/clustertopologies",
    "KAI": "/apis/kai.scheduler/v1alpha1/topologies",
    "KUEUE": "/apis/kueue.x-k8s.io/v1beta2/topologies",
    "HYPER": "/apis/topology.volcano.sh/v1alpha1/hypernodes",
    "FLAVORS": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "TOPOLOGIES": PATH,
    "NODES": NODES,
}
"""What words in capitals stand for at the beginning of a path."""


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """What happens, in this order; then what publishers do, and what there is afterwards."""

    serve: list[str] = []
    """Other projects' CRDs."""
    narrow: dict[str, int] = {}
    """CRDs that take so many levels."""
    remove: list[str] = []
    """CRDs."""
    nodes: dict[str, dict[str, str]] = {}
    """Ready ones of 8 GPUs with an agent, with these labels."""
    relabel: dict[str, dict[str, str | None]] = {}
    make: dict[str, Any] = {}
    """An object, by its collection. A text `uid of PATH` in it stands for that."""
    patch: dict[str, Any] = {}
    delete: list[str] = []
    hold: dict[str, str] = {}
    """Objects that get a finalizer."""
    release: bool = False
    """Whether all of them lose it."""
    note: list[str] = []
    """Objects of which later steps say what became of them."""
    time: float | None = None
    grove: str | None = None
    """Grove starts: why it exits, or nothing."""
    slow: float = 0.0
    """Seconds that each write takes."""
    passes: list[float] = []
    """The controller makes one so many seconds later, and then the next."""
    by: str = ""
    """The publishers that are asked."""
    dry: bool = False
    """Whether for a dry run."""
    levels: str = "zone block rack host"
    publish: dict[str, str] = {}
    """As in the spec; a publisher of which it says Never takes back."""
    outcomes: list[dict[str, Any]] = []
    """Fields of each outcome that is not in sync."""
    synced: list[dict[str, Any]] = []
    """Of each that is, where something is said of it."""
    served: dict[str, bool] = {}
    there: dict[str, dict[str, Any]] = {}
    """Values by their place in an object."""
    names: dict[str, list[str]] = {}
    """Of all objects, by their collection."""
    gone: list[str] = []
    same: list[str] = []
    kept: list[str] = []
    """Objects with the same uid."""
    anew: list[str] = []
    writes: list[str] | None = None
    """All so far."""
    logged: dict[str, int] = {}
    """How often these words have been."""


class Case(msgspec.Struct, forbid_unknown_fields=True):
    case: str
    steps: list[Step]
    real: str = ""
    """What only a real API server does."""
    embedded: str = ""
    """What only the embedded one does."""
    patience: float = 30.0
    """Seconds that levels of KAI and Kueue must have been wanted for."""


class Site:
    """Publishers as a pass asks them, and what they write."""

    def __init__(self, api: ApiUnderTest, client: ApiClient, patience: float) -> None:
        self.api, self.time = api, publishing.Time()
        self.before: Callable[[Request], None] = lambda _: None
        """Hears of each request first; what it raises takes the request's place."""
        self.writes: list[str] = []
        self.slow = 0.0
        self.noted: dict[str, Any] = {}
        self.held = contextlib.ExitStack()
        watched = publishing.WatchedClient(client, self._note)
        self.publishing = registry.publishing(PublishSettings(runtime=self.time, delay=patience))
        self.dry_run = DryRun(watched, self.publishing.dry_run_publishers, self.time)
        through = publishing.backoff_on(watched, self.time)
        self._client = client
        self.publishers = {publisher.name: publisher for publisher in self.publishing.publishers(through)}

    def _note(self, request: Request) -> None:
        self.before(request)
        if request.method != "GET" and request.query.get("dryRun") != "All":
            self.writes.append(f"{request.method} {request.path.rsplit('/', 2)[1]}")
            self.time.seconds += self.slow

    @functools.cached_property
    def controller(self) -> Controller:
        publishers = tuple(self.publishers.values())
        reconciler = Reconciler(
            Wiring(self._client, publishers, self.time, dry_run=self.dry_run, publishing=self.publishing)
        )
        return controller_of(self._client, reconciler)

    def turn(self, step: Step) -> list[Published]:
        """What comes of asking publishers whose kinds are served; nothing of one that has nothing to take back."""
        wanted, keys = topology(publish=step.publish), [KEYS.get(word, word) for word in step.levels.split()]
        if step.dry:
            dry = [
                self.dry_run.retract(name, wanted)
                if step.publish.get(name) == "Never"
                else self.dry_run.publish(name, wanted, levels(*keys))
                for name in step.by.split()
            ]
            return [result for result in dry if result]
        asked = [publisher for name, publisher in self.publishers.items() if name in step.by.split()]
        results = [
            publisher.retract(wanted)
            if step.publish.get(publisher.name) == "Never"
            else publisher.publish(wanted, levels(*keys))
            for publisher in asked
            if publisher.served()
        ]
        return [result for result in results if result]

    def happen(self, step: Step) -> None:
        publishing.install(self.api, *step.serve)
        for crd, most in step.narrow.items():
            publishing.install_narrowed(self.api, crd, most)
        for crd in step.remove:
            self.api.remove_crd(crd)
        self._write(step)
        for path, name in step.hold.items():
            self.held.enter_context(publishing.finalizer(self.api, path, name))
        if step.release:
            self.held.close()
        self.noted |= {path: self.api.get(path) for path in step.note}
        self.time.seconds = self.time.seconds if step.time is None else step.time
        if step.grove:
            with pytest.raises(GroveExitError, match=step.grove):
                start_grove(self.api)
        elif step.grove is not None:
            start_grove(self.api)
        self.slow = step.slow
        for seconds in step.passes:
            self.time.seconds += seconds
            self.controller.once()

    def _write(self, step: Step) -> None:
        for name, labels in step.nodes.items():
            make_node(self.api, name, labels)
        for name, changes in step.relabel.items():
            relabel(self.api, name, changes)
        for collection, body in step.make.items():
            self.api.create(collection, body)
        for path, change in step.patch.items():
            self.api.patch(path, change)
        for path in step.delete:
            assert self.api.request("DELETE", path)[0] == 200

    def resolved(self, value: Any) -> Any:
        """A value of a table with words for paths and uids replaced."""
        if isinstance(value, dict):
            return {self.resolved(key): self.resolved(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.resolved(part) for part in value]
        if isinstance(value, str) and value.startswith("uid of "):
            return self.api.get(self.resolved(value.removeprefix("uid of ")))["metadata"]["uid"]
        words = re.match("[A-Z]+(?=$|/)", value) if isinstance(value, str) else None
        return PATHS.get(words[0], words[0]) + value[words.end() :] if words else value


def has(result: Published, fields: dict[str, Any]) -> bool:
    """Whether an outcome is as expected; `*` in a text stands for anything."""
    found = {name: getattr(result, name) for name in fields}
    texts = [name for name, value in found.items() if isinstance(value, str)]
    return all(says(found[name], fields[name]) if name in texts else found[name] == fields[name] for name in fields)


def cases() -> list[Any]:
    made = []
    for row in rows("published.yaml", Case):
        marks = [pytest.mark.real_api(row.real)] if row.real else []
        marks += [pytest.mark.embedded_api(row.embedded)] if row.embedded else []
        made.append(pytest.param(row, id=row.case, marks=marks))
    return made


@pytest.mark.regression
@pytest.mark.parametrize("row", cases())
def test_what_becomes_of_what_is_published(
    row: Case, api: ApiUnderTest, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    if any(step.passes for step in row.steps):
        share_crd(api)
    site = Site(api, clients(), row.patience)
    with site.held:
        for number, raw in enumerate(row.steps):
            step = msgspec.convert(site.resolved(msgspec.to_builtins(raw)), Step)
            site.happen(step)
            results = site.turn(step)
            assert {name: site.publishers[name].served() for name in step.served} == step.served, number
            for said, expected in (
                ([result for result in results if not result.in_sync], step.outcomes),
                ([result for result in results if result.in_sync], step.synced),
            ):
                assert (expected is step.synced and not expected) or len(said) == len(expected), (number, said)
                assert [pair for pair in zip(said, expected, strict=False) if not has(*pair)] == [], (number, said)
            for path, names in step.names.items():
                assert sorted(item["metadata"]["name"] for item in api.get(path)["items"]) == names, (number, path)
            for path, values in step.there.items():
                document = api.get(path)
                for place, value in values.items():
                    found_there = at(document, place)
                    text = isinstance(found_there, str) and isinstance(value, str)
                    assert says(found_there, value) if text else found_there == value, (number, path, found_there)
            assert [path for path in step.gone if found(api, path)] == [], number
            assert [path for path in step.same if api.get(path) != site.noted[path]] == [], number
            uids = {path: (api.get(path), site.noted[path]) for path in (*step.kept, *step.anew)}
            same = {path: now["metadata"]["uid"] == then["metadata"]["uid"] for path, (now, then) in uids.items()}
            assert same == {**dict.fromkeys(step.kept, True), **dict.fromkeys(step.anew, False)}, number
            assert step.writes is None or site.writes == step.writes, number
            assert {words: caplog.text.count(words) for words in step.logged} == step.logged, number


KAI, OURS = PATHS["KAI"], f"{PATHS['KAI']}/cluster"
FOUR, THREE = Step(by="kai"), Step(by="kai", levels="zone rack host")
IMMUTABLE = pytest.mark.real_api("immutability is a CEL rule")


@pytest.fixture
def kai(api: ApiUnderTest, clients: Clients) -> Site:
    publishing.install(api, "kai-topologies-v0.17")
    return Site(api, clients(), 30.0)


@pytest.fixture
def replacing(kai: Site) -> Site:
    """About to replace four levels by three."""
    assert [kai.turn(step)[0].in_sync for step in (FOUR, THREE)] == [True, False]
    kai.time.seconds = 30
    return kai


@IMMUTABLE
def test_a_crash_between_deletion_and_creation_heals(api: ApiUnderTest, replacing: Site, clients: Clients) -> None:
    def crash(request: Request) -> None:
        if "DELETE topologies" in replacing.writes and request.method == "PATCH":
            raise UnreachableError("gone")

    replacing.before = crash
    with pytest.raises(UnreachableError):
        replacing.turn(THREE)
    assert found(api, OURS) is None
    assert Site(api, clients(), 30.0).turn(THREE)[0].in_sync
    assert publishing.node_labels(api, OURS) == (ZONE, RACK, HOSTNAME)


@IMMUTABLE
def test_what_changed_since_it_was_looked_at_is_not_deleted(api: ApiUnderTest, replacing: Site) -> None:
    def meddle(request: Request) -> None:
        if request.method == "DELETE":
            api.patch(OURS, {"metadata": {"annotations": {"example.com/note": "mine"}}})

    replacing.before = meddle
    (result,) = replacing.turn(THREE)
    assert (result.reason, result.again_in) == ("Waiting", 5)
    assert "The object might have been modified" in result.message
    assert publishing.node_labels(api, OURS) == (ZONE, BLOCK, RACK, HOSTNAME)


@pytest.mark.regression
def test_one_that_somebody_makes_at_the_last_moment_is_theirs(api: ApiUnderTest, kai: Site, clients: Clients) -> None:
    """Also where it has the very levels: a forced apply would take it over, and the next levels would replace it."""

    def be_quicker(request: Request) -> None:
        if request.method == "PATCH":
            api.create(KAI, publishing.kai_topology(ZONE, BLOCK, RACK, HOSTNAME))

    kai.before = be_quicker
    assert kai.turn(FOUR)[0].reason == "Waiting"
    assert "ownerReferences" not in api.get(OURS)["metadata"]
    assert Site(api, clients(), 30.0).turn(FOUR)[0].reason == "Conflict"


@pytest.mark.real_api("disputed short names")
def test_two_crds_that_want_one_short_name_are_named(api: ApiUnderTest, kai: Site) -> None:
    publishing.install(api, "grove-clustertopologies-alpha4")
    api.install_crd(upstream_crd("grove-clustertopologybindings-alpha10"))
    (result,) = kai.turn(Step(by="grove"))
    assert result.reason == "Conflict"
    assert result.message == (
        "the CRD clustertopologybindings.grove.io is not served, because clustertopologies.grove.io of an older Grove "
        'has its short name ("ct" is already in use); delete the CRD clustertopologies.grove.io with its objects'
    )
    api.remove_crd("clustertopologies.grove.io")

    def taken() -> bool:
        return [result.in_sync for result in kai.turn(Step(by="grove"))] == [True]

    # The name is free at once; discovery, which the publisher asks, follows some moments later.
    wait_until(taken, "the binding is written once its kind is served")
