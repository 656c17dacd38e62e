"""What commands print or write for other programs and for people: YAML, JSON, files, counts."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import GPUS
from toposcope.api.levels import Level
from toposcope.cli.errors import CommandError
from toposcope.cli.terminal import Screen, Whole
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Scope
from toposcope.text import escaped, escaped_lines, first_few, plural

IS_IT_RUNNING: Final = "is the agent's DaemonSet running there?"
FORMS: Final = ("yaml", "json", "wide", "name")
"""Values of `-o` that are no file names, where it also takes one."""


def yaml_text(document: Any, comments: Iterable[str] = ()) -> str:
    """A document as YAML, below comments."""
    import yaml  # noqa: PLC0415 - only this output needs it

    # Through JSON: YAML's writer knows no enumeration or tuple, and both outputs have to say the
    # same.
    plain = msgspec.json.decode(msgspec.json.encode(document))
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("Dumper", (base,), {})
    dumper.add_representer(str, _yaml_scalar)
    body: str = yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1 << 16)
    head = []
    for comment in comments:
        head.append(f"# {escaped(comment)}".rstrip() + "\n")

    return "".join(head) + escaped_lines(body)


def _yaml_scalar(dumper: Any, text: str) -> Any:
    """Double quotes around what has to be escaped: they alone read it back."""
    style = '"' if escaped(text) != text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def json_text(document: Any) -> str:
    """A document as JSON."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return escaped_lines(text) + "\n"


def list_document(items: Sequence[Any]) -> dict[str, Any]:
    """Several objects as one that `kubectl apply` takes."""
    return {"apiVersion": "v1", "kind": "List", "items": items}


def show_document(screen: Screen, output: str, document: Any) -> None:
    """Print a document of plain values as `json` or `yaml`."""
    text = json_text(document) if output == "json" else yaml_text(document)
    write_output(screen, text, None)


def write_output(screen: Screen, text: str, file: str | None) -> None:
    """Write the text to a file, or print it (`-`, or no file). Raises CommandError."""
    if file in (None, "-"):
        # str.splitlines also splits where Unicode ends lines
        lines = text.removesuffix("\n").split("\n")
        screen.show(line if line.startswith("# ") else Whole(line) for line in lines)
        return

    try:
        Path(str(file)).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"-o {file}: {error.strerror}") from error


def form_and_file(output: str | None) -> tuple[str, str | None]:
    """What `-o` asks for: one of FORMS, or a file in the default form."""
    return (str(output), None) if output in FORMS else ("", output)


def without_agent(scope: Scope) -> str:
    """About the nodes that wait for an agent; they are not among those of the scope.

    There must be one.
    """
    nodes = scope.without_agent
    waiting = f"{counted(len(nodes), 'node')} with {counted(gpus_of(nodes), 'GPU')}"
    has = plural(len(nodes), "has", "have")
    names = first_few(names_of(nodes))
    return f"not counted: {waiting} {has} no label {GPUS}: {names}; {IS_IT_RUNNING}"


def level_notes(scope: Scope) -> dict[str, str]:
    """The field of a document that says which levels it has, where status and labels disagree."""
    if scope.disagreement is None:
        return {}
    return {"note": scope.disagreement.note}


def names_of(nodes: Iterable[NodeView]) -> list[str]:
    """The names of nodes."""
    return [node.name for node in nodes]


def gpus_of(nodes: Iterable[NodeView]) -> int:
    """How many GPUs nodes have together."""
    return sum(node.gpus for node in nodes)


def path_of(levels: Iterable[Level]) -> str:
    """`zone > rack > host`."""
    return " > ".join(level.domain for level in levels)


def cleaned(nodes: int, keys: int) -> str:
    """`1 node of 16 labels and annotations`."""
    things = counted(keys, "label or annotation", "labels and annotations")
    return f"{counted(nodes, 'node')} of {things}"


def counted(count: int, one: str, several: str = "") -> str:
    """`1 node`, `12,000 nodes`."""
    return f"{count:,} {plural(count, one, several)}"
