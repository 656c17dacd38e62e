"""Generated writes of Nodes, and what a Node's managedFields say: for the proof that a token changes nothing of others.

A write is any verb, subresource and type of patch, with managedFields that were changed at random in a way that means
something: a field moves from one manager's entry to another's, an entry goes, one is made up.
"""

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tests.support.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiUnderTest, node

PREFIX: Final = "gpu.topology/"
SLINKY: Final = "topology.slinky.slurm.net/spec"
T = TypeVar("T")
Path = tuple[str, ...]
Fields = dict[str, Any]

_LABELS: Final = ("f:metadata", "f:labels")
_ANNOTATIONS: Final = ("f:metadata", "f:annotations")
_MAPS: Final = {"labels": _LABELS, "annotations": _ANNOTATIONS}
_INVENTED: Final[tuple[Path, ...]] = (
    (*_LABELS, "f:tenant"),
    (*_LABELS, "f:no-such-label"),
    (*_LABELS, f"f:{PREFIX}gpus"),
    (*_LABELS, f"f:{PREFIX}no-such-label"),
    (*_LABELS, "f:nvidia.com/gpu.count"),
    _LABELS,
    _ANNOTATIONS,
    (*_ANNOTATIONS, f"f:{PREFIX}matrix"),
    (*_ANNOTATIONS, f"f:{PREFIX}switches"),
    (*_ANNOTATIONS, f"f:{SLINKY}"),
    ("f:metadata", "f:finalizers"),
    ("f:metadata", "f:finalizers", 'v:"example.com/held"'),
    ("f:metadata",),
    ("f:spec", "f:taints"),
    ("f:spec", "f:unschedulable"),
    ("f:spec",),
    ("f:status", "f:capacity", "f:cpu"),
)
"""Fields that an attacker would like to see in somebody's entry."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes an entry of managedFields one manager's."""

    manager: str
    operation: str = "Update"
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """One request."""

    what: str
    method: str
    path: str
    body: Any
    media: str

    def send(self, api: ApiUnderTest, token: str, *, dry_run: bool = False) -> tuple[int, Any]:
        """Send it, perhaps as a dry run: the status and the answer."""
        path = self.path
        if dry_run:
            path += "&dryRun=All" if "?" in path else "?dryRun=All"
        return api.request(
            self.method,
            path,
            self.body,
            content_type=self.media,
            token=token,
        )


def paths(fields: Fields, prefix: Path = ()) -> set[Path]:
    """The members of a FieldsV1: an empty one is written as a field without fields or, beside others, as `.`."""
    if not fields:
        return {prefix} if prefix else set()
    found: set[Path] = set()
    for key, value in fields.items():
        if key == ".":
            found.add(prefix)
        else:
            found |= paths(value, (*prefix, key))
    return found


def fields(members: set[Path]) -> Fields:
    """A FieldsV1 with these members."""
    made: Fields = {}
    for member in sorted(members, key=len):
        place = made
        for key in member:
            place = place.setdefault(key, {})
    for member in members:
        place = made
        for key in member:
            place = place[key]
        if place:
            place["."] = {}
    return made


def managed(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The managedFields of a Node."""
    entries: list[dict[str, Any]] = found["metadata"].get("managedFields") or []
    return entries


def identity(entry: Mapping[str, Any]) -> Identity:
    """Whose an entry is."""
    return Identity(
        entry["manager"],
        entry["operation"],
        entry.get("subresource", ""),
    )


def entry_fields(entry: Mapping[str, Any]) -> set[Path]:
    """What an entry names."""
    return paths(entry.get("fieldsV1") or {})


def keys_of(found: Mapping[str, Any], field: str) -> dict[str, str]:
    """The labels or annotations of a Node."""
    keys: dict[str, str] = found["metadata"].get(field) or {}
    return keys


def owned(found: Mapping[str, Any]) -> dict[Identity, set[Path]]:
    """What each manager owns of a Node."""
    members = {}
    for entry in managed(found):
        members[identity(entry)] = entry_fields(entry)
    return members


def times(found: Mapping[str, Any]) -> dict[Identity, str | None]:
    """When each manager last wrote, as its entry says."""
    written = {}
    for entry in managed(found):
        written[identity(entry)] = entry.get("time")
    return written


@dataclass(frozen=True, slots=True)
class Rights:
    """What a program may write of a Node, as docs/security.md says it."""

    program: str
    managers: tuple[str, ...]
    """Its own field managers."""
    labels: tuple[str, ...] = ()
    """How its labels begin."""
    annotations: tuple[str, ...] = ()
    only_removes: bool = False

    def may_write(self, field: str, key: str) -> bool:
        """Whether a label or annotation is its own to write."""
        prefixes = self.labels if field == "labels" else self.annotations
        return key.startswith(prefixes)

    def is_own(self, member: Path) -> bool:
        """Whether a field of managedFields stands for a label or annotation that is its own to write."""
        if not member:
            return False
        *place, last = member
        for field, map_place in _MAPS.items():
            if tuple(place) == map_place:
                key = last.removeprefix("f:")
                return self.may_write(field, key)
        return False

    def is_own_manager(self, manager: Identity) -> bool:
        """Whether an entry of managedFields is one of the program's."""
        return manager.manager in self.managers and not manager.subresource


def foreign(found: Mapping[str, Any], rights: Rights) -> dict[str, Any]:
    """A Node without what the program may write, and without managedFields."""
    metadata = dict(found["metadata"])
    metadata.pop("managedFields", None)
    metadata.pop("resourceVersion", None)
    for field in _MAPS:
        kept = {}
        for key, value in keys_of(found, field).items():
            if not rights.may_write(field, key):
                kept[key] = value
        metadata[field] = kept
    return {
        "metadata": metadata,
        "spec": found["spec"],
        "status": found.get("status"),
    }


def damage(before: Mapping[str, Any], after: Mapping[str, Any], rights: Rights) -> list[str]:
    """What a write did that the program may not do."""
    found = []
    if foreign(before, rights) != foreign(after, rights):
        found.append("the Node differs outside the program's keys")
    if not managed(before):
        return found + _damage_to_untracked(before, after, rights)
    was = owned(before)
    now = owned(after)
    found += _damage_to_entries(was, after, rights)
    old_times = times(before)
    new_times = times(after)
    for manager in was.keys() & now.keys():
        is_touched = new_times[manager] != old_times[manager]
        if is_touched and not rights.is_own_manager(manager):
            found.append(f"{manager} has another time")
    made_up = []
    for manager in now.keys() - was.keys():
        if rights.only_removes or not rights.is_own_manager(manager):
            made_up.append(manager)
    if made_up:
        found.append(f"{made_up} are new")
    return found + _overreach(was, now, rights)


def _damage_to_entries(was: Mapping[Identity, set[Path]], after: Mapping[str, Any], rights: Rights) -> list[str]:
    """What other managers own now that they did not own, or own no more."""
    found = []
    now = owned(after)
    for manager, members in was.items():
        if rights.is_own_manager(manager):
            continue
        kept = now.get(manager, set())
        gained = kept - members
        if gained:
            found.append(f"{manager} gained {sorted(gained)}")
        wrongly = []
        for lost in sorted(members - kept):
            if not _may_lose(lost, after, now, rights):
                wrongly.append(lost)
        if wrongly:
            found.append(f"{manager} lost {wrongly}")
    return found


def _may_lose(
    member: Path,
    after: Mapping[str, Any],
    now: Mapping[Identity, set[Path]],
    rights: Rights,
) -> bool:
    """Whether another manager may lose a field: one that the program owns now, or that is gone from the Node."""
    for field, place in _MAPS.items():
        there = keys_of(after, field)
        if member == place:
            return not there
        is_in_map = member[:-1] == place and rights.is_own(member)
        if is_in_map and member[-1].startswith(f"f:{PREFIX}"):
            is_gone = member[-1].removeprefix("f:") not in there
            return is_gone or _is_owned(member, now, rights)
    return False


def _is_owned(member: Path, now: Mapping[Identity, set[Path]], rights: Rights) -> bool:
    """Whether the program owns a field, under whatever operation and subresource."""
    for manager, members in now.items():
        if manager.manager in rights.managers and member in members:
            return True
    return False


def _overreach(
    was: Mapping[Identity, set[Path]],
    now: Mapping[Identity, set[Path]],
    rights: Rights,
) -> list[str]:
    """What the program's own entries gained that is none of its keys; a whole map is, as an apply with none of them."""
    found = []
    for manager, members in now.items():
        if not rights.is_own_manager(manager):
            continue
        beyond = []
        for member in sorted(members - was.get(manager, set())):
            is_own = rights.is_own(member)
            is_allowed = member in _MAPS.values() or (is_own and not rights.only_removes)
            if not is_allowed:
                beyond.append(member)
        if beyond:
            found.append(f"{manager} gained {beyond}")
    return found


def _damage_to_untracked(before: Mapping[str, Any], after: Mapping[str, Any], rights: Rights) -> list[str]:
    """The same where managedFields were empty: they stay so, or the API server lists everything that is there."""
    now = owned(after)
    if not now:
        return []
    listed = now.pop(Identity("before-first-apply"), set())
    changed = _changed_by(rights, before, after)
    expected = everything(before) - changed
    found = []
    if listed - changed != expected:
        found.append(f"before-first-apply: {sorted(listed ^ expected)}")
    strangers = []
    for manager in now:
        if manager.manager not in rights.managers:
            strangers.append(manager)
    if strangers or rights.only_removes:
        found.append(f"{strangers or [*now]} are new")
    return found + _overreach({}, now, rights)


def _changed_by(rights: Rights, before: Mapping[str, Any], after: Mapping[str, Any]) -> set[Path]:
    """The program's labels and annotations that are another way now, or gone."""
    changed: set[Path] = set()
    for field, place in _MAPS.items():
        there = keys_of(after, field)
        for key, value in keys_of(before, field).items():
            if rights.may_write(field, key) and there.get(key) != value:
                changed.add((*place, f"f:{key}"))
    return changed


def _lists(metadata: Mapping[str, Any]) -> set[Path]:
    """The finalizers and owners in a Node's metadata."""
    members: set[Path] = set()
    for name in metadata.get("finalizers") or ():
        members.add(("f:metadata", "f:finalizers"))
        members.add(("f:metadata", "f:finalizers", f'v:"{name}"'))
    for owner in metadata.get("ownerReferences") or ():
        members.add(("f:metadata", "f:ownerReferences"))
        members.add(("f:metadata", "f:ownerReferences", f'k:{{"uid":"{owner["uid"]}"}}'))
    return members


def everything(found: Mapping[str, Any]) -> set[Path]:
    """Every field of a Node, as the API server lists them before the first apply."""
    metadata = found["metadata"]
    spec = found["spec"]
    members: set[Path] = set()
    for field, place in _MAPS.items():
        if field in metadata:
            members.add(place)
        for key in metadata.get(field, ()):
            members.add((*place, f"f:{key}"))
    members |= _lists(metadata)
    if "generateName" in metadata:
        members.add(("f:metadata", "f:generateName"))
    for key in spec:
        members.add(("f:spec", f"f:{key}"))
    for network in spec.get("podCIDRs", ()):
        members.add(("f:spec", "f:podCIDRs", f'v:"{network}"'))
    return members


_MANAGERS: Final = (
    "toposcope-agent",
    "toposcope-agent-nvidia",
    "toposcope-controller",
    "toposcope-switches",
    "gitops",
    "kubectl",
    "kubelet",
    "before-first-apply",
    "ancient-changes",
    "x" * 128,
)


_SPECS: Final[tuple[dict[str, Any], ...]] = (
    {"unschedulable": None},
    {"unschedulable": True},
    {"taints": None},
    {"taints": []},
    {"providerID": "x"},
)
_METADATA: Final[tuple[dict[str, Any], ...]] = (
    {"generateName": "made-up"},
    {"finalizers": None},
    {"finalizers": ["example.com/mine"]},
    {"ownerReferences": None},
    {"labels": None},
    {"annotations": None},
    {"generation": 7},
    {"selfLink": "/x"},
    {"deletionGracePeriodSeconds": 1},
)
_NEW_KEYS: Final = {
    "labels": [f"{PREFIX}gpus", f"{PREFIX}state"],
    "annotations": [f"{PREFIX}matrix", f"{PREFIX}switches"],
}


@dataclass
class Generator:
    """Makes writes of one Node, as it was last read."""

    rng: random.Random
    path: str
    found: dict[str, Any]

    def writes(self, count: int) -> Iterator[Write]:
        """So many."""
        for _ in range(count):
            yield self.write()

    def write(self) -> Write:
        """One."""
        metadata = self._metadata()
        (method,) = self.rng.choices(
            ("PATCH", "PUT", "POST"),
            weights=(40, 1, 1),
        )
        (part,) = self.rng.choices(
            ("", "/status", "/proxy", "/ephemeral"),
            weights=(60, 2, 1, 1),
        )
        manager = self.rng.choice(_MANAGERS)
        query = f"?fieldManager={manager}"
        if method == "PATCH":
            return self._patch(f"{self.path}{part}{query}", metadata)

        body = copy.deepcopy(self.found)
        body["metadata"] = {**self.found["metadata"], **metadata}
        path = f"{self.path}{part}"
        if method == "POST":
            path, _, _ = self.path.rpartition("/")
        return Write(
            what=method,
            method=method,
            path=path + query,
            body=body,
            media="application/json",
        )

    def _patch(self, path: str, metadata: dict[str, Any]) -> Write:
        media = self.rng.choice((MERGE, MERGE, STRATEGIC, JSON_PATCH, APPLY))
        if media == APPLY:
            return self._apply(path, metadata)
        if media == JSON_PATCH:
            return Write(
                what="JSON patch",
                method="PATCH",
                path=path,
                body=self._operations(metadata),
                media=media,
            )
        body = {"metadata": metadata, **self._beyond_metadata()}
        if media == STRATEGIC and self.rng.random() < 0.1:
            labels = metadata.get("labels") or {}
            metadata["labels"] = {"$patch": "replace", **labels}
        return Write(
            what=media,
            method="PATCH",
            path=path,
            body=body,
            media=media,
        )

    def _apply(self, path: str, metadata: dict[str, Any]) -> Write:
        kept = {}
        for key, value in metadata.items():
            if key != "managedFields" or self.rng.random() < 0.1:
                kept[key] = value
        for field in _MAPS:
            if isinstance(kept.get(field), dict):
                kept[field] = _without_removals(kept[field])
        name = self.found["metadata"]["name"]
        body = {**node(name), **self._beyond_metadata()}
        body["metadata"] = {**body["metadata"], **kept}
        force = self.rng.choice(("", "&force=true"))
        return Write(
            what="apply",
            method="PATCH",
            path=path + force,
            body=body,
            media=APPLY,
        )

    def _operations(self, metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
        operations = []
        for key, value in metadata.items():
            is_map = key in _MAPS and isinstance(value, dict)
            if is_map and key in self.found["metadata"]:
                for name, text in value.items():
                    path = f"/metadata/{key}/{_escaped(name)}"
                    operations.append(_operation(path, text))
            else:
                operations.append(_operation(f"/metadata/{key}", value))
        spec = self._beyond_metadata().get("spec", {})
        for key, value in spec.items():
            operations.append(_operation(f"/spec/{key}", value))
        return operations

    def _beyond_metadata(self) -> dict[str, Any]:
        if self.rng.random() > 0.04:
            return {}
        spec = self.rng.choice(_SPECS)
        return {"spec": spec}

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        if self.rng.random() < 0.5:
            metadata["labels"] = self._changes("labels")
        if self.rng.random() < 0.3:
            metadata["annotations"] = self._changes("annotations")
        if self.rng.random() < 0.85:
            metadata["managedFields"] = self._managed()
        if self.rng.random() < 0.04:
            metadata |= self.rng.choice(_METADATA)
        return metadata

    def _changes(self, field: str) -> dict[str, str | None]:
        there = list(keys_of(self.found, field))
        ours = [key for key in there if key.startswith(PREFIX)]
        new = _NEW_KEYS[field]
        choices = (
            ours,
            ours,
            new,
            new,
            there,
            ["example.com/new"],
            [SLINKY],
            ["nvidia.com/gpu.count"],
        )
        keys = self.rng.choice(choices)
        count = self.rng.randint(1, 2)
        changes: dict[str, str | None] = {}
        for key in self._some(keys, count):
            changes[key] = self.rng.choice((None, "7", "8"))
        return changes

    def _some(self, population: Sequence[T], count: int) -> list[T]:
        """So many of them, or all where there are fewer."""
        return self.rng.sample(population, min(len(population), count))

    def _managed(self) -> Any:
        if self.rng.random() < 0.05:
            return self.rng.choice((None, [], [{}], [{"manager": "x"}]))
        entries = copy.deepcopy(managed(self.found))
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            self._mutate(entries)
        return entries

    def _mutate(self, entries: list[dict[str, Any]]) -> None:
        mutations = [self._made_up, self._made_up]
        if entries:
            mutations += [
                self._without,
                self._plant,
                self._plant,
                self._plant,
                self._strip,
                self._strip,
                self._move,
                self._rename,
                self._reset,
            ]
        mutate = self.rng.choice(mutations)
        mutate(entries)

    def _pick(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        return self.rng.choice(entries)

    def _known(self) -> list[Path]:
        there = everything(self.found)
        for members in owned(self.found).values():
            there |= members
        return [*_INVENTED, *sorted(there)]

    def _plant(self, entries: list[dict[str, Any]]) -> None:
        entry = self._pick(entries)
        known = self._known()
        count = self.rng.randint(1, 3)
        planted = self.rng.sample(known, count)
        members = entry_fields(entry)
        members.update(planted)
        entry["fieldsV1"] = fields(members)

    def _strip(self, entries: list[dict[str, Any]]) -> None:
        entry = self._pick(entries)
        there = sorted(entry_fields(entry))
        count = self.rng.randint(1, 3)
        gone = self._some(there, count)
        entry["fieldsV1"] = fields(set(there) - set(gone))

    def _move(self, entries: list[dict[str, Any]]) -> None:
        giver = self._pick(entries)
        taker = self._pick(entries)
        there = sorted(entry_fields(giver))
        moved = set(self._some(there, 2))
        giver["fieldsV1"] = fields(set(there) - moved)
        taker["fieldsV1"] = fields(entry_fields(taker) | moved)

    def _without(self, entries: list[dict[str, Any]]) -> None:
        entries.remove(self._pick(entries))

    def _rename(self, entries: list[dict[str, Any]]) -> None:
        manager = self.rng.choice(_MANAGERS)
        self._pick(entries)["manager"] = manager

    def _reset(self, entries: list[dict[str, Any]]) -> None:
        changes: Sequence[dict[str, str]] = (
            {"operation": "Apply"},
            {"operation": "Update"},
            {"time": "2020-01-01T00:00:00Z"},
            {"subresource": "status"},
            {"subresource": ""},
            {"apiVersion": "v2"},
        )
        entry = self._pick(entries)
        change = self.rng.choice(changes)
        entry.update(change)

    def _made_up(self, entries: list[dict[str, Any]]) -> None:
        known = self._known()
        if self.rng.random() < 0.3:  # nearly what the API server makes where there are no managedFields
            members = everything(self.found)
            count = self.rng.randint(0, 2)
            forgotten = self.rng.sample(sorted(members), count)
            members.difference_update(forgotten)
            manager = "before-first-apply"
        else:
            count = self.rng.randint(1, 4)
            members = set(self.rng.sample(known, count))
            manager = self.rng.choice(_MANAGERS)
        entry = {
            "manager": manager,
            "operation": self.rng.choice(("Apply", "Update")),
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields(members),
        }
        entries.append(entry)


def _operation(path: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {"op": "remove", "path": path}
    return {"op": "add", "path": path, "value": value}


def _without_removals(keys: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for key, value in keys.items():
        if value is not None:
            kept[key] = value
    return kept


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
