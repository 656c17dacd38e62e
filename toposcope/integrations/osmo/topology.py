"""OSMO's pools and backends: topology keys, and what is wrong with them.

They come as JSON or YAML, as printed by `osmo config show POOL` and accepted by `osmo config update
POOL`: all pools under `pools`, an object of pools by name, or one pool. None of them is an object
of the Kubernetes API. OSMO makes the scheduler's Topology of a pool's `topology_keys`, in their
order.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import HOSTNAME
from toposcope.api.levels import MAX_LEVELS, Level
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import (
    TopologyLevels,
    decoded,
    did_you_mean,
    exportable,
)
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.framework.topologies import HOSTNAME_LAST, check_order
from toposcope.integrations.osmo import scheduler

UNNAMED: Final = "cluster"
"""The name used here for a pool's topology, which has a name of its own."""
_KEYS: Final = "topology_keys"
_SETTINGS: Final = "scheduler_settings"
_MADE: Final = "osmo-pool"


class _Key(msgspec.Struct, frozen=True):
    key: str
    label: str


class _Pool(msgspec.Struct, frozen=True):
    topology_keys: list[_Key]


def write(topology: TopologyLevels) -> dict[str, Any]:
    """The `topology_keys` of a pool's configuration. Raises ExportError."""
    levels = exportable(topology).levels
    return {_KEYS: [{"key": level.domain, "label": level.key} for level in levels]}


def read(document: Any) -> TopologyLevels:
    """A pool's configuration, or its `topology_keys`. Raises UnreadableDocumentError."""
    pool = decoded(document, _Pool, "OSMO pool with topology_keys")
    return TopologyLevels(
        UNNAMED, tuple(Level(entry.key, entry.label) for entry in pool.topology_keys)
    )


def pools_of(document: Mapping[str, Any]) -> Iterator[TopologyLevels]:
    """The pools of a document with their keys in the pool's order.

    A level's domain is the key's name in the pool.
    """
    for name, pool in _named(Field(document), "pools", _KEYS):
        levels = []
        for entry in (pool / _KEYS).items():
            key = (entry / "key").text()
            label = (entry / "label").text()
            if key and label:
                levels.append(Level(key, label))
        yield TopologyLevels(name, tuple(levels), "OSMO pool")


def topology_of(pool: str) -> str:
    """The name of the Topology that OSMO creates for a pool.

    Its real name also contains the backend's namespace.
    """
    return f"{_MADE}-{pool}-topology" if pool else f"{_MADE}-topology"


def is_topology_of(name: str, pool: str | None) -> bool:
    """Whether OSMO created a Topology for this pool; for any pool if None."""
    suffix = f"-{pool}-topology" if pool else "-topology"
    return name.startswith(f"{_MADE}-") and name.endswith(suffix)


def schedulers_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The schedulers of a document's backends, by the name of the backend."""
    schedulers = {}
    for name, backend in _named(Field(document), "backends", _SETTINGS):
        kind = (backend / _SETTINGS / "scheduler_type").text()
        if kind:
            schedulers[name] = kind
    return schedulers


def _named(root: Field, plural: str, having: str) -> Iterator[tuple[str, Field]]:
    """Objects with the property `having`, by name.

    The document itself, the items of `plural`, or the document's own properties.
    """
    if having in root.value:
        yield (root / "name").text() or "", root
        return

    for name, item in _candidates(root, plural):
        if isinstance(item.value, dict) and having in item.value:
            yield name, item


def _candidates(root: Field, plural: str) -> list[tuple[str, Field]]:
    """The items of `plural` by name, else the document's own properties."""
    several = root / plural
    if isinstance(several.value, dict):
        return list(several.properties())
    if not isinstance(several.value, list):
        return list(root.properties())

    named = []
    for item in several.items():
        if isinstance(item.value, dict):
            named.append(((item / "name").text() or "", item))
    return named


def _claims(document: Mapping[str, Any]) -> bool:
    """Whether it configures a pool with topology keys, or a backend's scheduler."""
    if "kind" in document:
        return False
    root = Field(document)
    pools = list(_named(root, "pools", _KEYS))
    backends = list(_named(root, "backends", _SETTINGS))
    return bool(pools or backends)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del before  # keys can be changed; OSMO creates the Topology again
    for name, pool in _named(root, "pools", _KEYS):
        _check_pool(name, pool, cluster)
    return Reading(subject="OSMO pools and backends")


POOL: Final = System("OSMO", _claims, _read)
READERS: Final = (POOL,)


def _check_pool(name: str, pool: Field, cluster: ClusterFacts) -> None:
    keys = pool / _KEYS
    entries = list(keys.items())
    _check_scheduler(name, pool, cluster)

    _check_complete(entries)
    _check_unique(entries)
    for entry in entries[:-1]:
        if (entry / "label").text() == HOSTNAME:
            (entry / "label").error("osmo/pool-order", HOSTNAME_LAST, "move it to the end")
    labels = [(entry, (entry / "label").text() or "") for entry in entries]
    fix = "list the keys from coarse to fine"
    check_order(labels, cluster, "osmo/pool-order", end="; OSMO uses the order as written", fix=fix)

    if len(entries) > MAX_LEVELS:
        text = (
            f"{scheduler.TITLE}'s Topology, which OSMO creates from these keys, allows "
            f"{MAX_LEVELS} levels; the pool has {len(entries)}"
        )
        keys.error("osmo/pool-keys", text, "remove the keys that no workflow uses")

    for entry, label in labels:
        if cluster.lacks_label(label):
            (entry / "label").warn(
                "osmo/pool-label",
                f"no node carries the label {label!r}; "
                f"{scheduler.TITLE} ignores nodes without all labels of the pool, so no workflow "
                "with a topology starts",
                did_you_mean(label, cluster.node_labels),
            )


def _check_scheduler(name: str, pool: Field, cluster: ClusterFacts) -> None:
    backend = (pool / "backend").text() or ""
    used = cluster.schedulers.get(backend)
    if used and used.lower() != scheduler.TYPE and (pool / _KEYS).value:
        (pool / _KEYS).error(
            "osmo/pool-scheduler",
            f'Topology keys cannot be set for pool "{name}" because backend "{backend}" uses '
            f'scheduler "{used}" '
            "which does not support topology constraints",
            f'set scheduler_settings.scheduler_type of the backend to "{scheduler.TYPE}", '
            "or remove topology_keys",
        )


def _check_complete(entries: Iterable[Field]) -> None:
    for entry in entries:
        for field in (entry / "key", entry / "label"):
            if field.value is None:
                fix = "each entry has a key and a node label"
                field.error("osmo/pool-keys", "Field required", fix)


def _check_unique(entries: list[Field]) -> None:
    for field, value in _repeated(entries, "key"):
        text = f"{value!r} is listed twice; OSMO uses the last one"
        field.error("osmo/pool-key-twice", text, "name each key once")

    for field, value in _repeated(entries, "label"):
        text = (
            f"{value!r} is the label of two keys; "
            f"OSMO accepts that, {scheduler.TITLE}'s Topology does not: "
            "nodeLabel must be unique"
        )
        field.error("osmo/pool-label-twice", text, "give each key a label of its own")


def _repeated(entries: Iterable[Field], name: str) -> Iterator[tuple[Field, str]]:
    """The entries that repeat the value of an earlier one."""
    earlier_values: set[str] = set()
    for entry in entries:
        field = entry / name
        value = field.text()
        if value in earlier_values:
            yield field, value
        if value:
            earlier_values.add(value)
