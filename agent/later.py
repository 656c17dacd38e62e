"""Modules that an agent loads when they are first used, though others of the standard library import them at their top.

It comes to use them only when something is amiss, or never: `logging` wants `traceback` (with a tokenizer), HTTP's
headers want `calendar`, a URL wants `ipaddress`, and NVIDIA's binding wants `shutil`, `subprocess` and `tempfile` to
look for libraries where it never runs.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any, Final

LATER: Final = ("calendar", "ipaddress", "shutil", "subprocess", "tempfile", "traceback")


def put_off() -> None:
    """Let each of `LATER` that is not loaded yet wait until something of it is used; to import it is not."""
    for name in LATER:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None and spec.loader is not None:
            sys.modules[name] = _Later(spec)


class _Later(ModuleType):
    """A module that is executed as soon as somebody asks for what it does not have yet.

    The standard library's LazyLoader is no help: the import statement itself makes it load.
    """

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        # As the import machinery would set them; it looks at the first whenever the module is imported again.
        self.__spec__ = spec
        self.__file__ = spec.origin
        self.__loader__ = spec.loader
        self._lock = RLock()
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        with self._lock:  # another thread waits until all of it is there
            if type(self) is _Later and not self._begun:
                self._begun = True
                self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]  # put_off made sure of it
                self.__class__ = ModuleType  # type: ignore[assignment]  # a module like any other from now on
        return ModuleType.__getattribute__(self, name)
