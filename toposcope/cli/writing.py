"""What commands write for other programs: YAML with comments, JSON, files."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from toposcope.cli.failing import CommandError
from toposcope.cli.terminal import Screen
from toposcope.topology.text import plural


def yaml_text(document: Any, comments: Iterable[str] = ()) -> str:
    """A document as YAML, under comments."""
    import yaml  # noqa: PLC0415 - not every output is YAML

    body: str = yaml.dump(
        document,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        sort_keys=False,
        allow_unicode=True,
        width=1 << 16,
    )
    return "".join(f"# {comment}".rstrip() + "\n" for comment in comments) + body


def json_text(document: Any) -> str:
    """A document as JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def deliver(screen: Screen, text: str, file: str | None) -> None:
    """Write the text into a file, or print it (`-`, or no file). Raises Unanswerable."""
    if file in (None, "-"):
        screen.show(text.removesuffix("\n").split("\n"))
        return
    try:
        Path(str(file)).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"-o {file}: {error.strerror}") from error


FORMS: Final = ("yaml", "json", "wide", "name")
"""What `-o` means where it also takes the name of a file."""


def split_output(output: str | None) -> tuple[str, str | None]:
    """The form and the file that `-o` asks for: a word of FORMS is no file, and a file has the default form."""
    return (str(output), None) if output in FORMS else ("", output)


def some(names: Sequence[str], few: int = 3) -> str:
    """The first few names."""
    return ", ".join(names[:few]) + (", ..." if len(names) > few else "")


def cleaned(nodes: int, keys: int) -> str:
    """`1 node of 16 labels and annotations`."""
    return f"{counted(nodes, 'node')} of {counted(keys, 'label or annotation', 'labels and annotations')}"


def counted(count: int, one: str, several: str = "") -> str:
    """`1 node`, `12,000 nodes`."""
    return f"{count:,} {plural(count, one, several)}"
