"""How full every container is that a process can reach: what a leak in Python looks like from inside.

Containers are told apart by where they hang (`Class.attribute`, `function variable`), not by identity, so that two
looks at a process can be compared though everything in it was made anew between them.
"""

import functools
import gc
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final

_ATOMS: Final = (str, bytes, bytearray, memoryview, int, float, complex, type(None), CodeType)
_COUNTED: Final = (dict, list, set, frozenset, deque)
_ITEMS: Final = (list, set, deque, tuple, frozenset)
_DEEPEST: Final = 4
"""So many brackets a name may have; what nests deeper shares the last one's."""


def look() -> dict[str, Any]:
    """This process's resident bytes, open files, threads, and how full each container is; the first before the last."""
    resident = rss(os.getpid())
    return {
        "rss": resident,
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names only
        "threads": threading.active_count(),
        "sizes": sizes(process_roots(frozenset({"toposcope"}))),
    }


def rss(pid: int) -> int:
    """The resident size of a process in bytes. Raises OSError when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))


def sizes(roots: Iterable[tuple[str, object]]) -> dict[str, int]:
    """The entries of all dicts, lists, sets, deques and caches below `roots` (name and object), summed by place.

    A cache with a size of its own is none: it fills up and stays.

    Of a class that is not counted as a root only its instances are looked into, and no module.
    """
    entries: Counter[str] = Counter()
    seen: set[int] = set()
    kept: list[object] = []  # what is made by looking must live until the end, or its identity is given out again
    stack = list(roots)
    while stack:
        name, item = stack.pop()
        if isinstance(item, _ATOMS) or id(item) in seen:
            continue
        seen.add(id(item))
        kept.append(item)
        if isinstance(item, _COUNTED):
            entries[name] += len(item)
        elif isinstance(item, functools._lru_cache_wrapper) and item.cache_info().maxsize is None:  # noqa: SLF001 - the only name that the type has
            entries[f"{item.__qualname__}()"] += item.cache_info().currsize
        stack.extend(_below(name, item))
    return dict(entries)


def process_roots(packages: frozenset[str]) -> Iterator[tuple[str, object]]:
    """All that the other threads work on, and what modules and classes of these packages hold."""
    for thread, frame in sys._current_frames().items():  # noqa: SLF001 - there is no other way to see them
        at: FrameType | None = None if thread == threading.get_ident() else frame
        while at is not None:
            where = at.f_code.co_qualname
            yield from ((f"{where} {name}", value) for name, value in list(at.f_locals.items()))
            at = at.f_back
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] in packages]:
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield from ((f"{value.__qualname__}.{own}", part) for own, part in list(vars(value).items()))
            elif not isinstance(value, type):
                yield f"{module.__name__}.{name}", value


def _below(name: str, item: Any) -> Iterator[tuple[str, object]]:
    """What an object holds, each with the name of its place."""
    inner = name if name.endswith("[]" * _DEEPEST) else name + "[]"
    if isinstance(item, dict):
        for key, value in list(item.items()):
            yield inner, key
            yield inner, value
    elif isinstance(item, _ITEMS):
        yield from ((inner, part) for part in list(item))
    if isinstance(item, type | ModuleType) or type(item) in _ITEMS or type(item) is dict:
        return
    if isinstance(item, FunctionType):
        cells = zip(item.__code__.co_freevars, item.__closure__ or (), strict=True)
        yield from ((f"{item.__qualname__} {free}", _content(cell)) for free, cell in cells)
        yield f"{item.__qualname__} defaults", item.__defaults__
        yield f"{item.__qualname__} defaults", item.__kwdefaults__
    elif isinstance(item, MethodType | BuiltinFunctionType):
        yield name, item.__self__
    else:
        attributes = dict(_attributes(item))
        yield from ((f"{type(item).__qualname__}.{own}", value) for own, value in attributes.items())
        if not attributes:  # made in C: what the garbage collector learns of it has no names
            yield from ((f"{type(item).__qualname__} inside", referent) for referent in gc.get_referents(item))


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _attributes(item: object) -> Iterator[tuple[str, object]]:
    """Attributes of an instance: in its dict, in slots, in the fields of a struct."""
    own: Mapping[str, object] = getattr(item, "__dict__", None) or {}
    yield from list(own.items())
    slots = [vars(kind).get("__slots__", ()) for kind in type(item).__mro__]
    names = [name for slot in slots for name in ((slot,) if isinstance(slot, str) else slot)]
    for name in (*names, *getattr(type(item), "__struct_fields__", ())):
        hidden = name.startswith("__") and not name.endswith("__")
        where = f"_{type(item).__name__.lstrip('_')}{name}" if hidden else name
        if where not in own:
            yield name, getattr(item, where, None)
