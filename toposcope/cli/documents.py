"""Answers for programs: JSON and YAML, the same document either way."""

from typing import Any

import msgspec

from toposcope.cli.terminal import Screen


def show_document(screen: Screen, output: str, document: Any) -> None:
    """Print a document of plain values as `json` or `yaml`."""
    encoded = msgspec.json.encode(document)
    if output == "json":
        text = msgspec.json.format(encoded, indent=2).decode()
    else:
        import yaml  # noqa: PLC0415 - only this output needs it

        # By way of JSON: YAML's writer knows no enumeration or tuple, and both are to say the same.
        plain = msgspec.json.decode(encoded)
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1 << 16).rstrip("\n")
    screen.show(text.split("\n"))  # str.splitlines would also cut where Unicode ends lines
