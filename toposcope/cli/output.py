"""What commands print or write for other programs and for people: YAML, JSON, files, counts."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from toposcope.api.label_keys import GPUS
from toposcope.api.levels import Level
from toposcope.cli.errors import CommandError
from toposcope.cli.terminal import Screen, UnfoldedLine
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Scope
from toposcope.text import escaped, escaped_lines, first_few, plural

IS_IT_RUNNING: Final = "is the agent's DaemonSet running there?"
NO_TOPOLOGY: Final = (
    "there is no ClusterTopology, so nothing is published; levels are read from node labels alone"
)
FORMS: Final = ("yaml", "json", "wide", "name")
"""Values of `-o` that are no file names, where it also takes one."""
_YAML_WIDTH_CHARACTERS: Final = 1 << 16
"""Characters of a line of YAML; a longer one is folded."""


def yaml_text(document: Any, comments: Iterable[str] = ()) -> str:
    """A document as YAML, below comments."""
    import yaml  # noqa: PLC0415 - only this output needs it

    # Through JSON: YAML's writer knows no enumeration or tuple, and both outputs have to say the
    # same.
    as_json = msgspec.json.encode(document)
    plain = msgspec.json.decode(as_json)
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("Dumper", (base,), {})
    dumper.add_representer(str, _yaml_scalar)
    body: str = yaml.dump(
        plain,
        Dumper=dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_YAML_WIDTH_CHARACTERS,
    )

    text = ""
    for comment in comments:
        line = f"# {escaped(comment)}"
        text += line.rstrip() + "\n"
    return text + escaped_lines(body)


def _yaml_scalar(dumper: Any, text: str) -> Any:
    """A text, in double quotes where it has to be escaped: only those can be read back."""
    style = '"' if escaped(text) != text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def json_text(document: Any) -> str:
    """A document as JSON."""
    plain = msgspec.json.encode(document)
    indented = msgspec.json.format(plain, indent=2)
    text = indented.decode()
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
        screen.show(_lines_of(text))
        return

    try:
        Path(str(file)).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"-o {file}: {error.strerror}") from error


def _lines_of(text: str) -> Iterator[str]:
    """The lines of a document; its comments alone may be folded."""
    # str.splitlines also splits where Unicode ends lines
    for line in text.removesuffix("\n").split("\n"):
        is_comment = line.startswith("# ")
        yield line if is_comment else UnfoldedLine(line)


def form_and_file(output: str | None) -> tuple[str, str | None]:
    """What `-o` asks for: one of FORMS, or a file in the default form."""
    if output in FORMS:
        return str(output), None
    return "", output


def without_agent(scope: Scope) -> str:
    """A remark on the nodes that wait for an agent; the scope must have some.

    They are not among the scope's nodes.
    """
    waiting = scope.without_agent
    count = len(waiting)
    nodes = counted(count, "node")
    gpus = counted(gpus_of(waiting), "GPU")
    has = plural(count, "has", "have")
    names = first_few(names_of(waiting))
    return f"not counted: {nodes} with {gpus} {has} no label {GPUS}: {names}; {IS_IT_RUNNING}"


_BEFORE_AGENTS: Final = (
    f"no agent has labelled the nodes with {GPUS} yet: levels come from other labels, "
    "and NVLink domains and the health of GPUs are not known"
)


def level_notes(scope: Scope) -> dict[str, str]:
    """The field of a document that says which levels it has, and how far they can be known.

    Where status and labels disagree, or there are no agents yet.
    """
    if scope.is_before_agents:
        return {"note": _BEFORE_AGENTS}
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
    counted_nodes = counted(nodes, "node")
    things = counted(keys, "label or annotation", "labels and annotations")
    return f"{counted_nodes} of {things}"


def counted(count: int, singular: str, plural_form: str = "") -> str:
    """`1 node`, `12,000 nodes`."""
    noun = plural(count, singular, plural_form)
    return f"{count:,} {noun}"
