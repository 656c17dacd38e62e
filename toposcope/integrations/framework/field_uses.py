"""Which fields of a kind affect placement, and which of them are read.

A verdict is certain only if every field that can affect it was read. Each system has a
`field_uses.yaml` with the fields of its kinds, as the API server serves them:

    kinds:
      example.com/Gang: Gang          # or example.com/v1/Gang, where versions differ
    plain: {swarm: Swarm}             # documents without a kind, by the field that tells them
    unread_kinds:
      example.com/Swarm: its pods come from another object
    without_pods: [example.com/SwarmTemplate]
    types:
      Gang:
        extends: Other                # has the fields of another type besides
        parts:                        # fields that are of another type
          metadata: kubernetes/ObjectMeta
          spec.template: kubernetes/PodTemplate
        used: [spec.replicas, "spec.sizes[].count", "spec.selector.*"]
        irrelevant: [spec.color, status.**]
        unread:
          spec.spread: it says how many pods a domain may have
          spec.mode: {why: it chooses the scheduler, unless: [Default]}
    keys:
      prefixes: [example.com]
      used: [example.com/queue]

A path leads to one field: `[]` is each item of a list, `*` each value of a map, and `**` behind it
all that is below and on no list itself. A field in `unread` makes the verdict unclear if it is set:
to anything but null, false, 0, empty and the values of `unless`, or to one of `only`. So does a
field on no list. `keys` are labels and annotations, of whatever object: one that begins with one of
the prefixes (or a subdomain of it) and is on no list of any system leaves no verdict either.

Of kinds that no system reads, those of `unread_kinds` and others with pod templates have no
verdict; the objects of `without_pods` only hold templates.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from toposcope.integrations.framework.document import Field, UnreadField, kind_of

FILE: Final = "field_uses.yaml"
ANY_KIND: Final = "any_kind"
"""The type of a field that holds a whole object."""
KEYS: Final = "keys"
"""The type of a field that holds labels or annotations."""
_BUILT_IN: Final = (ANY_KIND, KEYS)
_UNKNOWN_FIELD: Final = "Toposcope does not know this field, which may decide where pods run"
_UNKNOWN_KIND: Final = "Toposcope has no list of the fields of this kind"
_UNREAD_PODS: Final = "Toposcope does not read the pods of this kind"
_UNKNOWN_KEY: Final = "Toposcope does not know this key, which may decide where pods run"
_ALL_BELOW: Final = "**"
ITEM: Final = "[]"
EACH: Final = "*"
_NOT_SET: Final[tuple[Any, ...]] = (None, "", False, [], {})


class Use(StrEnum):
    """How a field is used: the names of the lists."""

    USED = "used"
    IRRELEVANT = "irrelevant"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Listed:
    """The entry of a field on one of the lists."""

    use: Use
    why: str = ""
    """Why an unread field matters."""
    unless: tuple[Any, ...] = ()
    """Values of an unread field that have no effect."""
    only: tuple[Any, ...] = ()
    """The values that have an effect; empty for all others."""

    def is_unread(self, value: Any) -> bool:
        """Whether a field with this value may affect placement and is not read."""
        if self.use is not Use.UNREAD:
            return False
        if self.only:
            return value in self.only
        return value not in _NOT_SET and value not in self.unless


@dataclass(slots=True)
class KnownField:
    """A field as one type has it, and the fields below it."""

    below: dict[str, "KnownField"] = field(default_factory=dict)
    listed: Listed | None = None
    has_all_below: bool = False
    """Whether its list includes all fields below that are on no list."""
    type: str = ""
    """Its type; empty if it has no name."""

    @property
    def why(self) -> str:
        """Why it matters, if it is unread."""
        return self.listed.why if self.listed else ""

    def is_unread(self, value: Any) -> bool:
        """Whether the field may affect placement with this value and is not read."""
        return self.listed is not None and self.listed.is_unread(value)


Known = tuple[KnownField, ...]
"""The entries of a field in all types that contain it, most specific first; empty if no list has
it."""


class FieldUses:
    """The lists of all systems."""

    def __init__(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        """`files` are the contents of `field_uses.yaml`, by the name of the system."""
        self.kinds: dict[str, str] = {}
        """The type of each kind, by `group/Kind` or `group/version/Kind`."""
        self.plain: dict[str, str] = {}
        """The type of documents without a kind, by the field that identifies them."""
        self.types: dict[str, KnownField] = {}
        """By `system/Type`."""
        self._unread_kinds: dict[str, str] = {}
        self._without_pods: set[str] = set()
        self._keys: dict[str, Listed] = {}
        self._prefixes: set[str] = set()
        for system, content in files.items():
            self._add(system, content)

    def _add(self, system: str, content: Mapping[str, Any]) -> None:
        for kind, type_ in content.get("kinds", {}).items():
            self.kinds[kind] = _qualified(type_, system)
        for name, type_ in content.get("plain", {}).items():
            self.plain[name] = _qualified(type_, system)
        for name, lists in content.get("types", {}).items():
            self.types[f"{system}/{name}"] = _type(lists, system)
        self._unread_kinds |= content.get("unread_kinds", {})
        self._without_pods.update(content.get("without_pods", ()))
        keys = content.get(KEYS, {})
        self._prefixes.update(keys.get("prefixes", ()))
        for key, listed in _entries(keys):
            self._keys[key] = listed

    def type_of(self, document: Mapping[str, Any]) -> str:
        """The type of an object; empty if no list has its kind."""
        if "kind" not in document:
            told_by = (name for name in self.plain if name in document)
            return self.plain.get(next(told_by, ""), "")
        of_version = f"{document.get('apiVersion')}/{document.get('kind')}"
        return self.kinds.get(of_version, self.kinds.get(_name_of_kind(document), ""))

    def unread_pods(self, document: Mapping[str, Any]) -> tuple[UnreadField, ...]:
        """The fields that may create pods in an object that no system reads. Never raises."""
        return tuple(self._pods_in(Field(document)))

    def _pods_in(self, set_: Field) -> Iterator[UnreadField]:
        kind = _name_of_kind(set_.value)
        if not kind or kind in self._without_pods:
            return
        why = self._unread_kinds.get(kind)
        if why is not None:
            kind_field = set_ / "kind"
            yield UnreadField(kind_field.path, why)
        else:
            yield from _pod_templates(set_)

    def unread(self, document: Mapping[str, Any]) -> tuple[UnreadField, ...]:
        """The fields of an object that may affect placement and are not read.

        The document may be malformed in any way; never raises.
        """
        type_ = self.type_of(document)
        if not type_:
            return (UnreadField("kind", _UNKNOWN_KIND, is_known=False),)
        unread_fields = self._below(Field(document), self.of_type(type_), None)
        return tuple(dict.fromkeys(unread_fields))

    def _field(self, set_: Field, entries: Known, above: Listed | None) -> Iterator[UnreadField]:
        """The unread fields in one field; `above` is the list that includes it by a field above."""
        if not entries:
            yield from _on_no_list(set_, above)
            return
        has_parts = any(each.below or each.type for each in entries)
        entry = entry_of(entries)
        if entry is None:
            yield from self._below(set_, entries, above)
        elif entry.has_all_below and has_parts:
            yield from self._below(set_, entries, entry.listed)
        elif entry.is_unread(set_.value):
            yield UnreadField(set_.path, entry.why)
        elif has_parts:
            yield from self._below(set_, entries, above)

    def _below(self, set_: Field, entries: Known, above: Listed | None) -> Iterator[UnreadField]:
        types = {each.type for each in entries}
        if KEYS in types:
            yield from self._unread_keys(set_)
        elif ANY_KIND in types:
            yield from self._object(set_)
        elif isinstance(set_.value, dict):
            for name, value in set_.properties():
                yield from self._field(value, self.child(entries, name), above)
        elif isinstance(set_.value, list):
            for item in set_.items():
                yield from self._field(item, self.child(entries, ITEM), above)

    def _object(self, set_: Field) -> Iterator[UnreadField]:
        """The unread fields in an object that is the value of a field."""
        if not isinstance(set_.value, dict):
            return
        type_ = self.type_of(set_.value)
        if type_:
            yield from self._below(set_, self.of_type(type_), None)
        else:
            yield from self._pods_in(set_)

    def _unread_keys(self, keys: Field) -> Iterator[UnreadField]:
        if not isinstance(keys.value, dict):
            return
        for key, value in keys.properties():
            listed = self.listed_key(key)
            if listed is not None:
                if listed.is_unread(value.value):
                    yield UnreadField(value.path, listed.why)
            elif self.is_key_of_systems(key):
                yield UnreadField(value.path, _UNKNOWN_KEY, is_known=False)

    def listed_key(self, key: str) -> Listed | None:
        """The entry of a label or an annotation; None if it is on no list."""
        domain, slash, _ = key.rpartition("/")
        return self._keys.get(key) or self._keys.get(f"{domain}{slash}*")

    def is_key_of_systems(self, key: str) -> bool:
        """Whether a label or an annotation begins with a prefix of one of the systems."""
        domain, _, _ = key.rpartition("/")
        while domain:
            if domain in self._prefixes:
                return True
            _, _, domain = domain.partition(".")
        return False

    def of_type(self, type_: str) -> Known:
        """A field that is of this type. Raises KeyError for a type that no file has."""
        return self._with_types([KnownField(type=type_)])

    def child(self, entries: Known, name: str) -> Known:
        """The field of this name below another one, or `ITEM`.

        Raises KeyError for a type that no file has.
        """
        child_entries = [each.below[name] for each in entries if name in each.below]
        if not child_entries and name != ITEM:
            child_entries = [each.below[EACH] for each in entries if EACH in each.below]
        return self._with_types(child_entries)

    def _with_types(self, fields: Iterable[KnownField]) -> Known:
        """The fields, with the entries of their types."""
        all_entries: list[KnownField] = []
        for each in fields:
            all_entries.append(each)
            type_ = each.type
            while type_ and type_ not in _BUILT_IN:
                of_type = self.types[type_]
                all_entries.append(of_type)
                type_ = of_type.type
        return tuple(all_entries)


def entry_of(entries: Known) -> KnownField | None:
    """The entry of the most specific type that has the field on a list."""
    for each in entries:
        if each.listed is not None:
            return each
    return None


def _on_no_list(set_: Field, above: Listed | None) -> Iterator[UnreadField]:
    """A field that no list has, unless a list includes all below a field above it."""
    if above is None:
        if set_:
            yield UnreadField(set_.path, _UNKNOWN_FIELD, is_known=False)
    elif above.is_unread(set_.value):
        yield UnreadField(set_.path, above.why)


def _name_of_kind(document: Mapping[str, Any]) -> str:
    """`group/Kind`, as the files have it; empty for no Kubernetes object."""
    group, kind = kind_of(document)
    return f"{group}/{kind}" if group else kind


def _pod_templates(set_: Field) -> Iterator[UnreadField]:
    """The pod specs in a field, wherever they are."""
    if isinstance(set_.value, list):
        for item in set_.items():
            yield from _pod_templates(item)
    elif isinstance(set_.value, dict):
        containers = set_.value.get("containers")
        if isinstance(containers, list) and _are_containers(containers):
            yield UnreadField(set_.path, _UNREAD_PODS, is_known=False)
            return
        for _, value in set_.properties():
            yield from _pod_templates(value)


def _are_containers(items: list[Any]) -> bool:
    """Whether these are containers of a pod."""
    return any(
        isinstance(item, dict) and ("image" in item or "resources" in item) for item in items
    )


def _qualified(type_: str, system: str) -> str:
    """The name of a type that is unique among all files."""
    if type_ in _BUILT_IN or "/" in type_:
        return type_
    return f"{system}/{type_}"


def _type(lists: Mapping[str, Any], system: str) -> KnownField:
    root = KnownField()
    if "extends" in lists:
        root.type = _qualified(lists["extends"], system)
    for path, type_ in lists.get("parts", {}).items():
        part, _ = _at(root, path)
        part.type = _qualified(type_, system)
    for path, listed in _entries(lists):
        known_field, has_all_below = _at(root, path)
        known_field.listed = listed
        known_field.has_all_below = has_all_below
    return root


def _at(root: KnownField, path: str) -> tuple[KnownField, bool]:
    """The field at a path, created if missing, and whether the path includes all below it."""
    steps = path.replace(ITEM, f".{ITEM}").split(".")
    has_all_below = steps[-1] == _ALL_BELOW
    if has_all_below:
        steps.pop()
    known_field = root
    for step in steps:
        known_field = known_field.below.setdefault(step, KnownField())
    return known_field, has_all_below


def _entries(lists: Mapping[str, Any]) -> Iterator[tuple[str, Listed]]:
    """The entries of the lists, by path or key."""
    for use in (Use.USED, Use.IRRELEVANT):
        names: Iterable[str] = lists.get(use) or ()
        for name in names:
            yield name, Listed(use)
    unread: Mapping[str, Any] = lists.get(Use.UNREAD) or {}
    for name, reason in unread.items():
        yield name, _unread(reason)


def _unread(reason: str | Mapping[str, Any]) -> Listed:
    if isinstance(reason, str):
        return Listed(Use.UNREAD, reason)
    return Listed(
        Use.UNREAD,
        why=reason["why"],
        unless=tuple(reason.get("unless", ())),
        only=tuple(reason.get("only", ())),
    )
