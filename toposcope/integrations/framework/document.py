"""A document whose values know their path in it.

A value of the wrong type becomes a finding, and reading goes on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from toposcope.integrations.framework.surroundings import NOTHING_KNOWN, Surroundings
from toposcope.text import escaped

_MAX_SHOWN_CHARACTERS: Final = 60

Severity = Literal["error", "warning", "advice"]
"""Rejected, or never runs as intended; accepted, but misleading; could be better."""


class FixSuggestion(str):
    """A fix that suggests what was probably meant.

    `anywhere` is the part that is true in any cluster.
    """

    __slots__ = ("anywhere",)

    anywhere: str

    def __new__(cls, fix: str, anywhere: str = "") -> Self:
        """An empty `anywhere` means the whole fix."""
        suggestion = super().__new__(cls, fix)
        suggestion.anywhere = anywhere or fix
        return suggestion


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with one field of a document."""

    rule: str
    """A stable identifier for scripts: `system/unknown-domain`."""
    severity: Severity
    field: str
    """Its path in the document, empty for the document as a whole."""
    message: str
    """In the words of the system's webhook or condition, if it has some."""
    fix: str = ""
    value: str = ""
    """The value of the field, if it is text: the name of a level, or of a topology."""
    suggestion: str | None = None
    """What was probably meant, as far as it is true in any cluster; None if the fix does not say.
    """
    is_malformed: bool = False
    """Whether the value is malformed, whatever exists in the cluster."""


@dataclass(frozen=True, slots=True)
class UnreadField:
    """A field that is set and may decide where pods run, but is not read."""

    field: str
    """Its path in the document."""
    why: str
    """Why it matters."""
    is_known: bool = True
    """Whether Toposcope knows its meaning."""


MALFORMED: Final = "type"
"""The rule of values of a wrong type."""
_MAX_INTEGER: Final = (1 << 63) - 1


class Field:
    """One value of a document, None if missing. Fields of a document share the list of findings."""

    __slots__ = ("_name", "_parent", "_surroundings", "findings", "value")

    def __init__(
        self,
        value: Any,
        path: str | int = "",
        findings: list[Finding] | None = None,
        parent: "Field | None" = None,
        *,
        surroundings: Surroundings = NOTHING_KNOWN,
    ) -> None:
        """`surroundings` are those of a document, which is a field without a parent."""
        self.value = value
        self.findings: list[Finding] = [] if findings is None else findings
        self._name = path
        self._parent = parent
        self._surroundings = surroundings

    @property
    def path(self) -> str:
        """Its path in the document: `spec.levels[0].nodeLabel`.

        Names with dots, such as label keys, are in brackets.
        """
        if self._parent is None:
            return str(self._name)
        above = self._parent.path
        name = self._name
        if isinstance(name, int) or "." in name:
            return f"{above}[{name}]"
        if not above:
            return name
        return f"{above}.{name}"

    @property
    def root(self) -> "Field":
        """The root of its document."""
        if self._parent is None:
            return self
        return self._parent.root

    @property
    def surroundings(self) -> Surroundings:
        """What is known about the cluster around the document."""
        return self.root._surroundings  # noqa: SLF001 - of the same class

    def beside(self, name: str) -> "Field":
        """The property `name` of the object that this field is a property of."""
        if self._parent is None:
            return Field(None, name, self.findings, self)
        return self._parent / name

    def __truediv__(self, name: str) -> "Field":
        """The property `name` of an object.

        One that is absent or null is a field with the value None.
        """
        value = self.value
        if isinstance(value, dict):
            value = value.get(name)
        elif value is not None:
            self.wrong("an object")
            value = None
        return Field(value, name, self.findings, self)

    def with_value(self, value: Any) -> "Field":
        """The same field with another value, such as one that an operator sets."""
        return Field(
            value,
            self._name,
            self.findings,
            self._parent,
            surroundings=self._surroundings,
        )

    def __bool__(self) -> bool:
        """Whether it is set."""
        return self.value is not None

    def items(self) -> Iterator["Field"]:
        """The elements of a list."""
        elements = self.value
        if elements is None:
            return
        if not isinstance(elements, list):
            self.wrong("a list")
            return
        for number, value in enumerate(elements):
            yield Field(value, number, self.findings, self)

    def properties(self) -> Iterator[tuple[str, "Field"]]:
        """The properties of an object, by name."""
        properties = self.value
        if properties is None:
            return
        if not isinstance(properties, dict):
            self.wrong("an object")
            return
        for name, value in properties.items():
            if isinstance(name, str):
                yield name, Field(value, name, self.findings, self)
            else:
                self.wrong("an object whose property names are strings")

    def text(self) -> str | None:
        """A string; None if missing or empty, which Kubernetes both treats as "not set"."""
        value = self.value
        if value is None or isinstance(value, str):
            return value or None

        fix = ""
        if isinstance(value, bool | int | float):
            fix = "put it in quotes"
        self.wrong("a string", fix)
        return None

    def number(self, default: int, least: int = 0) -> int:
        """A whole number of at least `least` and of at most 63 bits, or the default."""
        number = self.value
        if number is None:
            return default

        expected = f"a whole number of at least {least}"
        if isinstance(number, int) and not isinstance(number, bool):
            if number > _MAX_INTEGER:
                expected = "a whole number of at most 63 bits"
            elif number >= least:
                return number
        self.wrong(expected)
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
        """An object of strings, such as labels and annotations."""
        texts = {}
        for name, field in self.properties():
            text = field.text()
            if text is not None:
                texts[name] = text
        return texts

    def error(self, rule: str, message: str, fix: str = "") -> None:
        """Record that a system would reject this value."""
        self._note(rule, "error", message, fix)

    def malformed(self, rule: str, message: str, fix: str = "") -> None:
        """Record that a system would reject this value as malformed, whatever the cluster has."""
        self._note(rule, "error", message, fix, is_malformed=True)

    def warn(self, rule: str, message: str, fix: str = "") -> None:
        """Record that this value is accepted but does not do what its author seems to expect."""
        self._note(rule, "warning", message, fix)

    def advise(self, rule: str, message: str, fix: str = "") -> None:
        """Record that there is a better way."""
        self._note(rule, "advice", message, fix)

    def _note(
        self, rule: str, severity: Severity, message: str, fix: str, *, is_malformed: bool = False
    ) -> None:
        """Record a finding.

        Names and values in it come from the document, which may contain anything.
        """
        suggestion = None
        if isinstance(fix, FixSuggestion):
            suggestion = escaped(fix.anywhere)
        value = ""
        if isinstance(self.value, str):
            value = self.value

        finding = Finding(
            rule=rule,
            severity=severity,
            field=escaped(self.path),
            message=escaped(message),
            fix=escaped(fix),
            value=value,
            suggestion=suggestion,
            is_malformed=is_malformed,
        )
        self.findings.append(finding)

    def wrong(self, expected: str, fix: str = "") -> None:
        """Record that the value has the wrong type."""
        shown = repr(self.value)
        if len(shown) > _MAX_SHOWN_CHARACTERS:
            shown = shown[:_MAX_SHOWN_CHARACTERS] + "..."
        message = f"is {shown}, expected {expected}"
        self.error(MALFORMED, message, fix)


Note = Callable[[Field, str, str, str], None]
"""`Field.error`, or `Field.warn` where an existing object is accepted and a new one is not."""


def kind_of(document: Any) -> tuple[str, str]:
    """API group (empty for the core group) and kind; both are empty for no Kubernetes object."""
    if not isinstance(document, dict):
        return "", ""
    version = document.get("apiVersion")
    kind = document.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return "", ""
    group, _, _ = version.rpartition("/")
    return group, kind


def name_of(root: Field, default: str = "") -> str:
    """The object's name."""
    name = root / "metadata" / "name"
    return name.text() or default


def namespace_of(root: Field) -> str:
    """The object's namespace."""
    namespace = root / "metadata" / "namespace"
    return namespace.text() or "default"


def handle_of(root: Field) -> str:
    """The object as kubectl takes it: `kind/name -n namespace`."""
    kind = (root / "kind").text() or "object"
    metadata = root / "metadata"
    name = name_of(root)
    if not name:
        prefix = (metadata / "generateName").text() or ""
        name = f"{prefix}?"

    handle = f"{kind.lower()}/{name}"
    namespace = (metadata / "namespace").text()
    if namespace:
        handle += f" -n {namespace}"
    return handle
