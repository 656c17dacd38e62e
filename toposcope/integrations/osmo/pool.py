"""OSMO's pools and backends: which topology keys a pool has, and what its administrator should know about them.

They come as JSON or YAML as `osmo config show POOL` prints and `osmo config update POOL` takes them: all pools under
`pools`, an object of pools by name, or one pool. None of them is an object of the Kubernetes API.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels, checked, decoded, near
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged
from toposcope.topology.levels import MAX_LEVELS, Level

_KEYS: Final = "topology_keys"
_SETTINGS: Final = "scheduler_settings"
_KAI: Final = "kai"
_SOURCE: Final = "OSMO pool"


class OsmoPool:
    """Reads pool and backend configurations."""

    name = "OSMO"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Whether it configures a pool with topology keys, or a backend's scheduler."""
        return "kind" not in document and any(True for _ in (*_pools(document), *_backends(document)))

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """What is wrong with the pools; nothing is to be placed. See System."""
        del before  # keys can be changed; OSMO makes KAI's Topology anew
        root = Field(document)
        for name, pool in _pools(document, root):
            _check_pool(name, pool, known)
        return Reading(None, merged(root.findings), subject="OSMO pools and backends")


def pools_of(document: Mapping[str, Any]) -> Iterator[TopologyLevels]:
    """The pools of a document with their keys in the pool's order; a level's domain is the key's name in the pool."""
    for name, pool in _pools(document):
        yield TopologyLevels(name, _levels(pool), _SOURCE)


def schedulers_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The schedulers of a document's backends, by the name of the backend."""
    return {name: kind for name, part in _backends(document) if (kind := (part / _SETTINGS / "scheduler_type").text())}


def _pools(document: Mapping[str, Any], root: Field | None = None) -> Iterator[tuple[str, Field]]:
    yield from _named(root or Field(document), "pools", _KEYS)


def _backends(document: Mapping[str, Any]) -> Iterator[tuple[str, Field]]:
    yield from _named(Field(document), "backends", _SETTINGS)


def _named(root: Field, plural: str, mark: str) -> Iterator[tuple[str, Field]]:
    """Objects with the member `mark`: the document itself, the elements or members of `plural`, or its own members."""
    if mark in root.value:
        yield (root / "name").text() or "", root
        return
    several = root / plural
    if isinstance(several.value, list):
        members = [((each / "name").text() or "", each) for each in several.items() if isinstance(each.value, dict)]
    else:
        members = list((several if isinstance(several.value, dict) else root).members())
    for name, part in members:
        if isinstance(part.value, dict) and mark in part.value:
            yield name, part


def _levels(pool: Field) -> tuple[Level, ...]:
    found = [((each / "key").text(), (each / "label").text()) for each in (pool / _KEYS).items()]
    return tuple(Level(key, label) for key, label in found if key and label)


def _check_pool(name: str, pool: Field, known: ClusterFacts) -> None:
    keys = pool / _KEYS
    entries = list(keys.items())
    _check_scheduler(name, pool, known)
    for entry in entries:
        for field in ("key", "label"):
            if (entry / field).value is None:
                (entry / field).error("osmo/pool-keys", "Field required", "each entry has a key and a node label")
    _check_unique(entries)
    _check_order(entries, known)
    if len(entries) > MAX_LEVELS:
        text = f"KAI's Topology, which OSMO makes of these keys, takes {MAX_LEVELS} levels; here are {len(entries)}"
        keys.error("osmo/pool-keys", text, "leave out keys that no workflow uses")
    for entry in entries:
        label = entry / "label"
        if known.labels and label.text() and label.text() not in known.labels:
            label.warn(
                "osmo/pool-label",
                f"no node carries the label {label.value!r}; KAI leaves out nodes that lack a key of the pool, so no "
                "workflow with topology starts",
                near(str(label.value), known.labels),
            )


def _check_scheduler(name: str, pool: Field, known: ClusterFacts) -> None:
    backend = (pool / "backend").text() or ""
    scheduler = known.schedulers.get(backend)
    if scheduler and scheduler.lower() != _KAI and (pool / _KEYS).value:
        (pool / _KEYS).error(
            "osmo/pool-scheduler",
            f'Topology keys cannot be set for pool "{name}" because backend "{backend}" uses scheduler "{scheduler}" '
            "which does not support topology constraints",
            'set scheduler_settings.scheduler_type of the backend to "kai", or remove topology_keys',
        )


def _check_unique(entries: list[Field]) -> None:
    for field, rule, text, fix in (
        ("key", "osmo/pool-key-twice", "stands here twice; OSMO goes by the last one", "name each key once"),
        (
            "label",
            "osmo/pool-label-twice",
            "is the label of two keys; OSMO accepts that, KAI's Topology does not: nodeLabel must be unique",
            "give each key a label of its own",
        ),
    ):
        seen: set[str] = set()
        for entry in entries:
            text_of = (entry / field).text()
            if text_of in seen:
                (entry / field).error(rule, f"{text_of!r} {text}", fix)
            seen.add(text_of or "")


def _check_order(entries: list[Field], known: ClusterFacts) -> None:
    """Nobody checks that the keys go from coarse to fine; a tree in the wrong order asks for something else."""
    for entry in entries[:-1]:
        if (entry / "label").text() == HOSTNAME:
            (entry / "label").error(
                "osmo/pool-order",
                "the kubernetes.io/hostname label can only be used at the lowest level of topology",
                "move it to the end",
            )
    for ladder in known.ladders.values():
        ranked = [(entry, level) for entry in entries if (level := ladder.level((entry / "label").text() or ""))]
        for (_, above), (each, level) in pairwise(ranked):
            if ladder.rank(level) < ladder.rank(above) and above.key != HOSTNAME:
                each.warn(
                    "osmo/pool-order",
                    f"{level.key!r} comes after {above.key!r}, but is broader in topology {ladder.name!r}; "
                    "OSMO takes the order as it is",
                    "list the keys from coarse to fine",
                )
                return


UNNAMED: Final = "cluster"
"""A pool's name is not its topology's: this one stands for it."""


class _Key(msgspec.Struct, frozen=True):
    key: str
    label: str


class _Pool(msgspec.Struct, frozen=True):
    topology_keys: list[_Key]


def write(hierarchy: TopologyLevels) -> dict[str, Any]:
    """The part of a pool's configuration. Raises Unwritable."""
    return {"topology_keys": [{"key": level.domain, "label": level.key} for level in checked(hierarchy).levels]}


def read(document: Any) -> TopologyLevels:
    """A pool's configuration or that part of it. Raises Unreadable."""
    found = decoded(document, _Pool, "OSMO pool with topology_keys")
    return TopologyLevels(UNNAMED, tuple(Level(entry.key, entry.label) for entry in found.topology_keys))
