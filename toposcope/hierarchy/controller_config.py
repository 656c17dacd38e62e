"""The controller's configuration file: an admin's own additions to the level catalogue.

    apiVersion: config.gpu.topology/v1alpha1
    kind: ControllerConfig
    catalogue:
      domains:                        # additional domains, with a place in the order
      - {name: row, after: block, keys: [example.com/row]}
      keys:                           # additional labels for an existing domain
      - {key: example.com/rack, domain: rack, position: Preferred}      # or Fallback
      placeholders: [unknown]         # values that mean unknown
      nearMisses:                     # labels that are easily taken for a level
      - {key: example.com/rak, instead: example.com/rack, why: a typing error of 2024}

A bad entry is left out and reported with its line; the others stay.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from toposcope.api.label_keys import CHASSIS, HOSTNAME, NVLINK_DOMAIN, PREFIX
from toposcope.api.label_values import is_label_value
from toposcope.api.levels import LEVELS_TAKEN, MAX_LEVELS, domain_problem, key_problem
from toposcope.api.yaml_text import YamlSyntaxError, compose
from toposcope.errors import ToposcopeError
from toposcope.hierarchy.catalogue import BUILT_IN, NEAR_MISS, NOT_ACCEPTED, Advice, Catalogue
from toposcope.text import printable

API_VERSION: Final = "config.gpu.topology/v1alpha1"
KIND: Final = "ControllerConfig"
_HOST: Final = "host"
_PREFERRED: Final = "Preferred"
_FALLBACK: Final = "Fallback"
_NULL: Final = "tag:yaml.org,2002:null"


class UnreadableError(ToposcopeError, ValueError):
    """Nothing of the file can be used; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Config:
    """A parsed file: its catalogue, and its problems as `file:line: field: problem`."""

    catalogue: Catalogue
    problems: tuple[str, ...]


def read_config(content: bytes, file: str) -> Config:
    """Parse a configuration file. Raises UnreadableError if it is not one."""
    try:
        document = compose(content)
    except YamlSyntaxError as error:
        raise UnreadableError(f"{file}:{error.line}: {error}") from error
    if not isinstance(document, MappingNode):
        raise UnreadableError(f"{file}: must begin with apiVersion: {API_VERSION} and kind: {KIND}")
    reading = _Reading(file)
    return reading.of(document)


class _BadError(ToposcopeError, ValueError):
    """An entry that is left out; the message has its line, field and problem."""

    def __init__(self, node: Node, at: str, problem: str) -> None:
        line = _line(node)
        place = printable(at)
        super().__init__(f"{line}: {place}: {problem}")


class _Reading:
    """A file being parsed: the catalogue so far, and the problems."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[str] = []
        self._placeholders = set(BUILT_IN.placeholders)
        self._advice = dict(BUILT_IN.advice)
        self._chosen = set(BUILT_IN.chosen)
        self._keys: dict[str, list[str]] = {}
        for domain, keys in BUILT_IN.keys.items():
            self._keys[domain] = list(keys)

    def of(self, document: MappingNode) -> Config:
        parts: dict[str, Callable[[Node, str], None]] = {
            "domains": self._domain,
            "keys": self._key,
            "placeholders": self._placeholder,
            "nearMisses": self._near_miss,
        }
        fields = self._known_fields(document, "", {"apiVersion", "kind", "catalogue"})
        version = fields.get("apiVersion", document)
        kind = fields.get("kind", document)
        try:
            _expect(version, "apiVersion", API_VERSION)
            _expect(kind, "kind", KIND)
        except _BadError as error:
            raise UnreadableError(f"{self._file}:{error}") from error

        additions = fields.get("catalogue")
        lists = self._known_fields(additions, "catalogue", parts.keys())
        for name, part in parts.items():  # in this order: keys may name domains of the file
            entries = lists.get(name)
            self._each(entries, f"catalogue.{name}", part)
        return Config(self._catalogue(), tuple(self._problems))

    def _catalogue(self) -> Catalogue:
        """The catalogue as it is so far."""
        keys_by_domain = {}
        for domain, keys in self._keys.items():
            keys_by_domain[domain] = tuple(keys)
        return Catalogue(
            keys=keys_by_domain,
            placeholders=frozenset(self._placeholders),
            advice=self._advice,
            chosen=frozenset(self._chosen),
        )

    def _report(self, problem: object) -> None:
        """Note a problem, which begins with its line."""
        text = f"{self._file}:{problem}"
        self._problems.append(text)

    def _known_fields(self, node: Node | None, at: str, known: AbstractSet[str]) -> dict[str, Node]:
        if node is None or _is_null(node):
            return {}
        if not isinstance(node, MappingNode):
            names = ", ".join(sorted(known))
            self._report(f"{_line(node)}: {at}: must have fields: {names}")
            return {}
        known_fields: dict[str, Node] = {}
        for pair in node.value:
            try:
                # One at a time, so that a bad field does not affect the others.
                part = MappingNode(node.tag, [pair])
                ((name, value),) = _fields(part, at, known).items()
                if name in known_fields:
                    raise _twice(pair[0], f"{at}.{name}")
            except _BadError as error:
                self._report(error)
            else:
                known_fields[name] = value
        return known_fields

    def _each(self, node: Node | None, at: str, part: Callable[[Node, str], None]) -> None:
        """Parse the entries of a list; bad ones are reported and left out."""
        if node is None or _is_null(node):
            return
        if not isinstance(node, SequenceNode):
            self._report(f"{_line(node)}: {at}: must be a list; begin each entry with '- '")
            return
        for number, entry in enumerate(node.value):
            try:
                part(entry, f"{at}[{number}]")
            except _BadError as error:
                self._report(error)

    def _domain(self, node: Node, at: str) -> None:
        entry = _entry(
            node,
            at,
            {"name", "after", "before", "keys"},
            needed=("name", "keys"),
        )
        name = entry.text("name")
        if name in self._keys:
            text = f"{name!r} already exists; add keys to it in catalogue.keys"
            raise entry.bad("name", text)
        problem = domain_problem(name)
        if problem:
            raise entry.bad("name", problem)
        if len(self._keys) >= MAX_LEVELS:
            text = f"too many domains; {LEVELS_TAKEN} levels"
            raise _BadError(node, at, text)

        place = self._place(entry)
        self._insert(name, place)

        def add_key(key: Node, at: str) -> None:
            self._keys[name].append(self._taken(key, at, name))

        keys = entry.fields["keys"]
        self._each(keys, entry.place("keys"), add_key)
        if not self._keys[name]:
            del self._keys[name]
            raise entry.bad("keys", "list a node label that carries it")

    def _place(self, entry: "_Entry") -> int:
        """The position of a new domain among the others."""
        sides = [side for side in ("after", "before") if side in entry.fields]
        if len(sides) != 1:
            text = "say where it belongs, from the broadest down: after or before another domain"
            raise _BadError(entry.node, entry.at, text)
        (side,) = sides
        neighbour = self._known_domain(entry, side)
        order = list(self._keys)
        place = order.index(neighbour)
        if side == "before":
            return place
        if neighbour == _HOST:
            raise entry.bad(side, "nothing is narrower than a host; write before: host")
        return place + 1

    def _insert(self, domain: str, place: int) -> None:
        """Add a domain without keys."""
        keys = list(self._keys.items())
        keys.insert(place, (domain, []))
        self._keys = dict(keys)

    def _key(self, node: Node, at: str) -> None:
        entry = _entry(node, at, {"key", "domain", "position"}, needed=("key", "domain"))
        domain = self._known_domain(entry, "domain")
        if domain == _HOST:
            raise entry.bad("domain", f"schedulers identify a host only by {HOSTNAME}")
        position = _PREFERRED
        if "position" in entry.fields:
            position = entry.text("position")
        if position not in {_PREFERRED, _FALLBACK}:
            text = f"{position!r} must be {_PREFERRED} or {_FALLBACK}"
            raise entry.bad("position", text)

        node_of_key = entry.fields["key"]
        key = self._taken(node_of_key, entry.place("key"), domain)
        keys = self._keys[domain]
        if position == _FALLBACK:
            keys.append(key)
            return
        # Of several preferred ones the first in the file is the first choice.
        preferred = self._chosen.intersection(keys)
        keys.insert(len(preferred), key)
        self._chosen.add(key)

    def _placeholder(self, node: Node, at: str) -> None:
        value = _text(node, at)
        if not is_label_value(value):
            raise _BadError(
                node, at, f"{value!r} is not a valid label value, so no node can carry it"
            )
        self._placeholders.add(value)

    def _near_miss(self, node: Node, at: str) -> None:
        entry = _entry(node, at, {"key", "instead", "why"}, needed=("key",))
        texts = {name: entry.text(name) for name in entry.fields}
        key = texts["key"]
        for keys in self._keys.values():
            if key in keys:
                text = f"{key!r} is a level key; remove it here or from its level"
                raise entry.bad("key", text)
        why = texts.get("why")
        self._advice[key] = Advice(
            reason=NEAR_MISS,
            instead=texts.get("instead", ""),
            why=why or "the controller's configuration lists it as a near miss",
        )

    def _known_domain(self, entry: "_Entry", field: str) -> str:
        domain = entry.text(field)
        if domain in self._keys:
            return domain
        domains = ", ".join(self._keys)
        problem = domain_problem(domain) or (
            f"{domain!r} is not a domain; known domains: {domains}; add others in catalogue.domains"
        )
        raise entry.bad(field, problem)

    def _taken(self, node: Node, at: str, domain: str) -> str:
        """A valid level key, which is removed from the domain that has it now.

        A key that cannot is reported here, and in the status of topologies whose nodes carry it.
        """
        key = _text(node, at)
        problem = _level_key_problem(key)
        if problem:
            why = f"it cannot carry the level '{domain}': {problem}"
            self._advice[key] = Advice(NOT_ACCEPTED, "", why)
            raise _BadError(node, at, problem)
        for keys in self._keys.values():
            if key in keys:
                keys.remove(key)
        self._chosen.discard(key)
        self._advice.pop(key, None)
        return key


@dataclass(frozen=True, slots=True)
class _Entry:
    """A mapping in a list of the file, with its fields."""

    node: Node
    at: str
    fields: Mapping[str, Node]

    def place(self, field: str) -> str:
        """The path of a field."""
        return f"{self.at}.{field}"

    def text(self, field: str) -> str:
        """The text of a field. Raises _BadError."""
        node = self.fields[field]
        return _text(node, self.place(field))

    def bad(self, field: str, problem: str) -> _BadError:
        """A problem with a field."""
        node = self.fields[field]
        place = self.place(field)
        return _BadError(node, place, problem)


def _entry(node: Node, at: str, known: AbstractSet[str], *, needed: Sequence[str]) -> _Entry:
    """The entry, as `_fields` reads it. Raises _BadError."""
    fields = _fields(node, at, known, needed)
    return _Entry(node, at, fields)


def _level_key_problem(key: str) -> str:
    """Why this label cannot carry a level; empty if it can."""
    problem = key_problem(key)
    if problem:
        return problem
    if key == HOSTNAME:
        return f"{key!r} can only be the host level"
    if key.startswith(PREFIX) and key not in {NVLINK_DOMAIN, CHASSIS}:
        return f"{key!r} describes a node, not where it is"
    return ""


def _fields(
    node: Node, at: str, known: AbstractSet[str], needed: Sequence[str] = ()
) -> dict[str, Node]:
    """The fields of a mapping. Raises _BadError for an unknown, missing or duplicate field."""
    names = ", ".join(sorted(known))
    if not isinstance(node, MappingNode):
        raise _BadError(node, at, f"must have fields: {names}")
    fields: dict[str, Node] = {}
    for name_node, value in node.value:
        name = str(name_node.value)
        place = f"{at}.{name}".removeprefix(".")
        if name not in known:
            problem = f"unknown field; known fields: {names}"
            raise _BadError(name_node, place, problem)
        if name in fields:
            raise _twice(name_node, place)
        fields[name] = value

    for name in needed:
        if name not in fields:
            place = f"{at}.{name}"
            raise _BadError(node, place, "is missing")
    return fields


def _twice(node: Node, at: str) -> _BadError:
    place = at.removeprefix(".")
    return _BadError(node, place, "is listed twice; remove one")


def _text(node: Node, at: str) -> str:
    if isinstance(node, ScalarNode) and not _is_null(node):
        return str(node.value)
    raise _BadError(node, at, "must be text")


def _expect(node: Node, at: str, value: str) -> None:
    if isinstance(node, ScalarNode) and node.value == value:
        return
    raise _BadError(node, at, f"must be {value}")


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
