"""A document with the path to where one stands in it: what has the wrong type is noted there, and reading goes on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toposcope.integrations.framework.system import Finding

_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a document. Parts of one document share the list of findings."""

    value: Any
    path: str = ""
    findings: list[Finding] = field(default_factory=list)

    def __truediv__(self, name: str) -> "Field":
        """The member `name` of an object; what is not there, or null, is a part with the value None."""
        return Field(self._object().get(name), self._below(name), self.findings)

    def _below(self, name: str) -> str:
        """The path of a member: what has dots of its own, as label keys do, stands in brackets."""
        if "." in name:
            return f"{self.path}[{name}]"
        return f"{self.path}.{name}" if self.path else name

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return self.value is not None

    def items(self) -> Iterator["Field"]:
        """The elements of a list."""
        if self.value is not None and not isinstance(self.value, list):
            self.wrong("a list")
            return
        for number, value in enumerate(self.value or ()):
            yield Field(value, f"{self.path}[{number}]", self.findings)

    def members(self) -> Iterator[tuple[str, "Field"]]:
        """The members of an object, by name."""
        for name in self._object():
            yield name, self / name

    def text(self) -> str | None:
        """A string; None where nothing stands, the empty string included: Kubernetes takes both for "not set"."""
        if self.value is None or isinstance(self.value, str):
            return self.value or None
        self.wrong("a string", "put it in quotes" if isinstance(self.value, bool | int | float) else "")
        return None

    def number(self, default: int, least: int = 0) -> int:
        """A whole number of at least `least`, or the default."""
        if self.value is None:
            return default
        if isinstance(self.value, int) and not isinstance(self.value, bool) and self.value >= least:
            return self.value
        self.wrong(f"a whole number of at least {least}")
        return default

    def flag(self, *, default: bool = False) -> bool:
        """A boolean, or the default."""
        if self.value is None:
            return default
        if isinstance(self.value, bool):
            return self.value
        self.wrong("true or false")
        return default

    def texts(self) -> dict[str, str]:
        """An object of strings, as labels and annotations are."""
        return {name: text for name, part in self.members() if (text := part.text()) is not None}

    def error(self, rule: str, message: str, fix: str = "") -> None:
        """Note that a system would refuse what stands here."""
        self.findings.append(Finding(rule, "error", self.path, message, fix))

    def warn(self, rule: str, message: str, fix: str = "") -> None:
        """Note that what stands here is accepted but does not do what its author seems to expect."""
        self.findings.append(Finding(rule, "warning", self.path, message, fix))

    def advise(self, rule: str, message: str, fix: str = "") -> None:
        """Note that there is a better way."""
        self.findings.append(Finding(rule, "advice", self.path, message, fix))

    def wrong(self, expected: str, fix: str = "") -> None:
        """Note that the value has the wrong type."""
        shown = repr(self.value)
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
        self.error("type", f"is {shown}, expected {expected}", fix)

    def _object(self) -> Mapping[str, Any]:
        if self.value is None:
            return {}
        if isinstance(self.value, dict):
            if all(isinstance(name, str) for name in self.value):
                return self.value
            self.wrong("an object whose member names are strings")
            return {name: value for name, value in self.value.items() if isinstance(name, str)}
        self.wrong("an object")
        return {}


def is_kind(document: Mapping[str, Any], group: str, *kinds: str) -> bool:
    """Whether the document is of one of the kinds, in any version of the API group (empty: the core group)."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(version, str) or kind not in kinds:
        return False
    return version.rpartition("/")[0] == group


def handle_of(root: Field) -> str:
    """How people name the object: `kind/name -n namespace`, as kubectl takes it."""
    kind = ((root / "kind").text() or "object").lower()
    metadata = root / "metadata"
    name = (metadata / "name").text() or ((metadata / "generateName").text() or "") + "?"
    namespace = (metadata / "namespace").text()
    return f"{kind}/{name}" + (f" -n {namespace}" if namespace else "")
