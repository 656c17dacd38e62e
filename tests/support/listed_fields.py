"""The fields on the lists of a system (`field_uses.yaml`), and objects in which one of them is set."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toposcope.integrations.framework.field_uses import EACH, ITEM, KnownField, Listed, Use
from toposcope.integrations.unread import field_uses

Object = dict[str, Any]
SET = "a"
"""What a field is set to where its list names no value: nobody reads it."""


@dataclass(frozen=True)
class ListedPath:
    """A field of a kind that is on a list."""

    names: tuple[str, ...]
    listed: Listed

    @property
    def use(self) -> Use:
        return self.listed.use

    @property
    def value(self) -> Any:
        """One by which the field counts."""
        return self.listed.only[0] if self.listed.only else SET

    @property
    def path(self) -> str:
        """As findings write it, where lists have one item."""
        text = ""
        for name in self.names:
            if name == ITEM:
                text += "[0]"
            else:
                text += f".{name}" if text else name
        return text

    def set_in(self, obj: Object) -> Object:
        """A copy of an object with the field."""
        changed = copy.deepcopy(obj)
        _set(changed, self.names, self.value)
        return changed


def listed_paths(type_: str) -> list[ListedPath]:
    """The fields of a type that are on a list of its system; those of pods and metadata are of another one."""
    system, _, _ = type_.partition("/")
    return list(_paths(field_uses().types[type_], system, ()))


def _paths(known: KnownField, system: str, above: tuple[str, ...]) -> Iterator[ListedPath]:
    if known.type.startswith(f"{system}/"):
        yield from _paths(field_uses().types[known.type], system, above)
    for name, field in known.below.items():
        names = (*above, SET if name == EACH else name)
        if field.listed is not None:
            yield ListedPath((*names, SET) if field.has_all_below else names, field.listed)
        yield from _paths(field, system, names)


def _set(target: Any, names: tuple[str, ...], value: Any) -> None:
    name, *others = names
    key: Any = 0 if name == ITEM else name
    if not others:
        if key == 0:
            target[:] = [value]
        else:
            target[key] = value
        return
    empty: Any = [] if others[0] == ITEM else {}
    if key == 0:
        if not target:
            target.append(empty)
    elif not isinstance(target.get(key), type(empty)):
        target[key] = empty
    _set(target[key], tuple(others), value)


def listed_keys(system_prefixes: tuple[str, ...]) -> dict[str, Listed]:
    """The labels and annotations under the prefixes of a system."""
    uses = field_uses()
    keys = {}
    for key, listed in uses._keys.items():
        domain = key.rpartition("/")[0]
        if any(domain == prefix or domain.endswith(f".{prefix}") for prefix in system_prefixes):
            keys[key.replace("*", SET)] = listed
    return keys
