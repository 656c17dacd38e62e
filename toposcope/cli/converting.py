"""A topology in a file of any system."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from toposcope.integrations.framework.levels import TopologyLevels, UnreadableDocumentError
from toposcope.integrations.registry import read_topology
from toposcope.snapshot.yaml_text import YamlSyntaxError, load
from toposcope.topology.catalogue import Catalogue


def read_file(file: str, catalogue: Catalogue) -> TopologyLevels:
    """The levels in a file (`-`: standard input), JSON or YAML, one document. Raises Unreadable and OSError."""
    text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    return read_topology(_values(text), catalogue)


def _values(text: bytes) -> Any:
    if text.lstrip().startswith(b"{"):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # YAML's own braces, or no JSON: the YAML reader tells the line
    try:
        return load(text)
    except YamlSyntaxError as error:
        raise UnreadableDocumentError(f"line {error.line}: {error}") from error
