"""Answers for programs: JSON and YAML, the same document either way."""

from typing import Any

import msgspec

from cli.terminal import Screen


def show_document(screen: Screen, output: str, document: Any) -> None:
    """Print a document of plain values as `json` or `yaml`."""
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    else:
        import yaml  # noqa: PLC0415 - only this output needs it

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1 << 16).rstrip("\n")
    screen.show(text.splitlines())
