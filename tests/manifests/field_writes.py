"""Generated writes of Nodes, and what a Node's managedFields say: for the proof that a token changes nothing of others.

A write is any verb, subresource and type of patch, with managedFields that were changed at random in a way that means
something: a field moves from one manager's entry to another's, an entry goes, one is made up.
"""

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.support.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiUnderTest, node

PREFIX: Final = "gpu.topology/"
SLINKY: Final = "topology.slinky.slurm.net/spec"
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
        return api.request(self.method, path, self.body, content_type=self.media, token=token)


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
    return Identity(entry["manager"], entry["operation"], entry.get("subresource", ""))


def owned(found: Mapping[str, Any]) -> dict[Identity, set[Path]]:
    """What each manager owns of a Node."""
    return {identity(entry): paths(entry.get("fieldsV1") or {}) for entry in managed(found)}


def times(found: Mapping[str, Any]) -> dict[Identity, str | None]:
    """When each manager last wrote, as its entry says."""
    return {identity(entry): entry.get("time") for entry in managed(found)}


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
        return key.startswith(self.labels if field == "labels" else self.annotations)

    def is_own(self, member: Path) -> bool:
        """Whether a field of managedFields stands for a label or annotation that is its own to write."""
        for field, place in _MAPS.items():
            if len(member) == len(place) + 1 and member[:-1] == place:
                return self.may_write(field, member[-1].removeprefix("f:"))
        return False


def foreign(found: Mapping[str, Any], rights: Rights) -> dict[str, Any]:
    """A Node without what the program may write, and without managedFields."""
    metadata = {
        key: value for key, value in found["metadata"].items() if key not in {"managedFields", "resourceVersion"}
    }
    for field in _MAPS:
        kept = {key: value for key, value in (metadata.get(field) or {}).items() if not rights.may_write(field, key)}
        metadata[field] = kept
    return {"metadata": metadata, "spec": found["spec"], "status": found.get("status")}


def damage(before: Mapping[str, Any], after: Mapping[str, Any], rights: Rights) -> list[str]:
    """What a write did that the program may not do."""
    found = []
    if foreign(before, rights) != foreign(after, rights):
        found.append("the Node differs outside the program's keys")
    if not managed(before):
        return found + _damage_to_untracked(before, after, rights)
    was, now = owned(before), owned(after)
    for manager, members in was.items():
        if manager.manager in rights.managers and not manager.subresource:
            continue
        kept = now.get(manager, set())
        if kept - members:
            found.append(f"{manager} gained {sorted(kept - members)}")
        wrongly = sorted(lost for lost in members - kept if not _may_lose(lost, after, now, rights))
        if wrongly:
            found.append(f"{manager} lost {wrongly}")
        if manager in now and times(after)[manager] != times(before)[manager]:
            found.append(f"{manager} has another time")
    made_up = [
        manager
        for manager in now.keys() - was.keys()
        if manager.manager not in rights.managers or manager.subresource or rights.only_removes
    ]
    if made_up:
        found.append(f"{made_up} are new")
    return found + _overreach(was, now, rights)


def _may_lose(member: Path, after: Mapping[str, Any], now: Mapping[Identity, set[Path]], rights: Rights) -> bool:
    """Whether another manager may lose a field: one that the program owns now, or that is gone from the Node."""
    for field, place in _MAPS.items():
        there = after["metadata"].get(field) or {}
        if member == place:
            return not there
        if member[:-1] == place and rights.is_own(member) and member[-1].startswith(f"f:{PREFIX}"):
            return member[-1].removeprefix("f:") not in there or any(
                member in members for manager, members in now.items() if manager.manager in rights.managers
            )
    return False


def _overreach(was: Mapping[Identity, set[Path]], now: Mapping[Identity, set[Path]], rights: Rights) -> list[str]:
    """What the program's own entries gained that is none of its keys; a whole map is, as an apply with none of them."""
    found = []
    for manager, members in now.items():
        if manager.manager not in rights.managers or manager.subresource:
            continue
        gained = members - was.get(manager, set())
        beyond = [member for member in gained if not (rights.is_own(member) or member in _MAPS.values())]
        if rights.only_removes:
            beyond += [member for member in gained if rights.is_own(member)]
        if beyond:
            found.append(f"{manager} gained {sorted(beyond)}")
    return found


def _damage_to_untracked(before: Mapping[str, Any], after: Mapping[str, Any], rights: Rights) -> list[str]:
    """The same where managedFields were empty: they stay so, or the API server lists everything that is there."""
    now = owned(after)
    if not now:
        return []
    listed = now.pop(Identity("before-first-apply"), set())
    changed = {
        (*place, f"f:{key}")
        for field, place in _MAPS.items()
        for key, value in (before["metadata"].get(field) or {}).items()
        if rights.may_write(field, key) and (after["metadata"].get(field) or {}).get(key) != value
    }
    expected = everything(before) - changed
    found = []
    if listed - changed != expected:
        found.append(f"before-first-apply: {sorted(listed ^ expected)}")
    strangers = [manager for manager in now if manager.manager not in rights.managers]
    if strangers or rights.only_removes:
        found.append(f"{strangers or [*now]} are new")
    return found + _overreach({}, now, rights)


def everything(found: Mapping[str, Any]) -> set[Path]:
    """Every field of a Node, as the API server lists them before the first apply."""
    metadata, spec = found["metadata"], found["spec"]
    members: set[Path] = set()
    for field, place in _MAPS.items():
        if field in metadata:
            members |= {place, *((*place, f"f:{key}") for key in metadata[field])}
    if finalizers := metadata.get("finalizers"):
        place = ("f:metadata", "f:finalizers")
        members |= {place, *((*place, f'v:"{name}"') for name in finalizers)}
    if owners := metadata.get("ownerReferences"):
        place = ("f:metadata", "f:ownerReferences")
        members |= {place, *((*place, f'k:{{"uid":"{owner["uid"]}"}}') for owner in owners)}
    if "generateName" in metadata:
        members.add(("f:metadata", "f:generateName"))
    members |= {("f:spec", f"f:{key}") for key in spec}
    members |= {("f:spec", "f:podCIDRs", f'v:"{value}"') for value in spec.get("podCIDRs", ())}
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
        method = self.rng.choices(("PATCH", "PUT", "POST"), (40, 1, 1))[0]
        place = self.path + self.rng.choices(("", "/status", "/proxy", "/ephemeral"), (60, 2, 1, 1))[0]
        manager = self.rng.choice(_MANAGERS)
        query = f"?fieldManager={manager}"
        if method != "PATCH":
            body = {**copy.deepcopy(self.found), "metadata": {**self.found["metadata"], **metadata}}
            where = place if method == "PUT" else self.path.rpartition("/")[0]
            return Write(method, method, where + query, body, "application/json")
        media = self.rng.choice((MERGE, MERGE, STRATEGIC, JSON_PATCH, APPLY))
        if media == APPLY:
            return self._apply(place, query, metadata)
        if media == JSON_PATCH:
            return Write("JSON patch", "PATCH", place + query, self._operations(metadata), media)
        body = {"metadata": metadata, **self._beyond_metadata()}
        if media == STRATEGIC and self.rng.random() < 0.1:
            body["metadata"]["labels"] = {"$patch": "replace", **(metadata.get("labels") or {})}
        return Write(media, "PATCH", place + query, body, media)

    def _apply(self, place: str, query: str, metadata: dict[str, Any]) -> Write:
        kept = {key: value for key, value in metadata.items() if key != "managedFields" or self.rng.random() < 0.1}
        for field in _MAPS:
            if isinstance(kept.get(field), dict):
                kept[field] = {key: value for key, value in kept[field].items() if value is not None}
        body = {**node(self.found["metadata"]["name"]), **self._beyond_metadata()}
        body["metadata"] = {**body["metadata"], **kept}
        force = self.rng.choice(("", "&force=true"))
        return Write("apply", "PATCH", place + query + force, body, APPLY)

    def _operations(self, metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
        operations = []
        for key, value in metadata.items():
            if key in _MAPS and isinstance(value, dict) and key in self.found["metadata"]:
                operations += [
                    self._operation(f"/metadata/{key}/{_escaped(name)}", text) for name, text in value.items()
                ]
            else:
                operations.append(self._operation(f"/metadata/{key}", value))
        for key, value in self._beyond_metadata().get("spec", {}).items():
            operations.append(self._operation(f"/spec/{key}", value))
        return operations

    @staticmethod
    def _operation(path: str, value: Any) -> dict[str, Any]:
        return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}

    def _beyond_metadata(self) -> dict[str, Any]:
        if self.rng.random() > 0.04:
            return {}
        return {
            "spec": self.rng.choice(
                (
                    {"unschedulable": None},
                    {"unschedulable": True},
                    {"taints": None},
                    {"taints": []},
                    {"providerID": "x"},
                )
            )
        }

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        if self.rng.random() < 0.5:
            metadata["labels"] = self._changes("labels")
        if self.rng.random() < 0.3:
            metadata["annotations"] = self._changes("annotations")
        if self.rng.random() < 0.85:
            metadata["managedFields"] = self._managed()
        if self.rng.random() < 0.04:
            metadata |= self.rng.choice(
                (
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
            )
        return metadata

    def _changes(self, field: str) -> dict[str, str | None]:
        there = [*(self.found["metadata"].get(field) or {})]
        ours = [key for key in there if key.startswith(PREFIX)]
        new = [f"{PREFIX}gpus", f"{PREFIX}state"] if field == "labels" else [f"{PREFIX}matrix", f"{PREFIX}switches"]
        keys = self.rng.choice((ours, ours, new, new, there, ["example.com/new"], [SLINKY], ["nvidia.com/gpu.count"]))
        picked = self.rng.sample(keys, min(len(keys), self.rng.randint(1, 2)))
        return {key: self.rng.choice((None, "7", "8")) for key in picked}

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
            mutations += [self._without, self._plant, self._plant, self._plant, self._strip, self._strip, self._move]
            mutations += [self._rename, self._reset]
        self.rng.choice(mutations)(entries)

    def _pick(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        return self.rng.choice(entries)

    def _known(self) -> list[Path]:
        there = set().union(*owned(self.found).values(), everything(self.found)) if managed(self.found) else None
        return [*_INVENTED, *sorted(there or everything(self.found))]

    def _plant(self, entries: list[dict[str, Any]]) -> None:
        entry = self._pick(entries)
        planted = self.rng.sample(self._known(), self.rng.randint(1, 3))
        entry["fieldsV1"] = fields(paths(entry.get("fieldsV1") or {}) | set(planted))

    def _strip(self, entries: list[dict[str, Any]]) -> None:
        entry = self._pick(entries)
        there = sorted(paths(entry.get("fieldsV1") or {}))
        gone = self.rng.sample(there, min(len(there), self.rng.randint(1, 3)))
        entry["fieldsV1"] = fields(set(there) - set(gone))

    def _move(self, entries: list[dict[str, Any]]) -> None:
        one, other = self._pick(entries), self._pick(entries)
        there = sorted(paths(one.get("fieldsV1") or {}))
        moved = set(self.rng.sample(there, min(len(there), 2)))
        one["fieldsV1"] = fields(set(there) - moved)
        other["fieldsV1"] = fields(paths(other.get("fieldsV1") or {}) | moved)

    def _without(self, entries: list[dict[str, Any]]) -> None:
        entries.remove(self._pick(entries))

    def _rename(self, entries: list[dict[str, Any]]) -> None:
        self._pick(entries)["manager"] = self.rng.choice(_MANAGERS)

    def _reset(self, entries: list[dict[str, Any]]) -> None:
        change: Sequence[dict[str, str]] = (
            {"operation": "Apply"},
            {"operation": "Update"},
            {"time": "2020-01-01T00:00:00Z"},
            {"subresource": "status"},
            {"subresource": ""},
            {"apiVersion": "v2"},
        )
        self._pick(entries).update(self.rng.choice(change))

    def _made_up(self, entries: list[dict[str, Any]]) -> None:
        known = self._known()
        if self.rng.random() < 0.3:  # nearly what the API server makes where there are no managedFields
            members = everything(self.found)
            members -= set(self.rng.sample(sorted(members), self.rng.randint(0, 2)))
            manager = "before-first-apply"
        else:
            members, manager = set(self.rng.sample(known, self.rng.randint(1, 4))), self.rng.choice(_MANAGERS)
        entries.append(
            {
                "manager": manager,
                "operation": self.rng.choice(("Apply", "Update")),
                "apiVersion": "v1",
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": fields(members),
            }
        )


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
