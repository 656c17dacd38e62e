"""Tables of docs/ that come from the code: labels, levels, fields, commands and flags."""

import argparse
import ast
import importlib
import inspect
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml

from tools.figures import markdown
from toposcope.agent.describe import Description, describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.api import label_keys
from toposcope.cli import COMMANDS, module_of
from toposcope.hierarchy.platforms import KEYS, MISTAKEN, RETIRED, UNKNOWN
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

EXAMPLES: Final = {"DGX H200": "dgx-h200", "GB200 NVL72": "gb200-nvl72-tray", "4 x L40S": "l40s-4"}
"""Head of a column to the profile that it shows."""
ANNOTATIONS: Final = frozenset(
    {label_keys.MATRIX, label_keys.REFERENCE, label_keys.SWITCHES, label_keys.RAILS}
)
NODE: Final = "node-7"

_ROOT: Final = Path(__file__).parents[2]
VALUES: Final = _ROOT / "manifests" / "chart" / "values.yaml"
LOCK: Final = _ROOT / "requirements.lock"
CRD: Final = _ROOT / "manifests" / "crds" / "gpu.topology_clustertopologies.yaml"
_LIMITS: Final = {
    "maxItems": "at most {} entries",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "pattern": "pattern `{}`",
}


def code(text: str) -> str:
    """Text as code in Markdown."""
    return f"`{text}`"


def listed(texts: Iterable[str]) -> str:
    """Texts as code, with commas between them."""
    return ", ".join(map(code, texts))


@cache
def described(profile: str) -> Description:
    """What the production agent says of a simulated machine."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "sys"
        machine = load_profile(profile)
        write_sysfs(machine, root)
        nvml = Nvml(SimulatedNvml(machine))
        return describe(probe(nvml, Sysfs(root), nvml.start()), NODE)


def meanings() -> dict[str, str]:
    """Each of Toposcope's keys to what `toposcope/api/label_keys.py` says of it, in that order."""
    return dict(_documented(ast.parse(inspect.getsource(label_keys)).body))


def labels() -> str:
    """Every label of ours, with what it is on the machines of `EXAMPLES`."""
    shown = []
    for profile in EXAMPLES.values():
        values = described(profile).labels.by_key
        shown.append(values)

    rows = []
    for key, meaning in meanings().items():
        if key in ANNOTATIONS:
            continue
        name = code(_shown(key))
        row = [name, meaning]
        for values in shown:
            row.append(_example(values, key))
        rows.append(row)
    return markdown(["label", "meaning", *EXAMPLES], rows)


def _example(values: Mapping[str, str], key: str) -> str:
    if key not in values:
        return ""
    return code(values[key])


def _shown(key: str) -> str:
    return f"{key}<level>" if key == label_keys.UNIQUE else key


def annotations() -> str:
    """Every annotation."""
    rows = []
    for key, text in meanings().items():
        if key in ANNOTATIONS:
            rows.append([code(key), text])
    return markdown(["annotation", "meaning"], rows)


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for name, text in pairwise(body):
        match name, text:
            case ast.AnnAssign(target=ast.Name(id=constant)), ast.Expr(
                value=ast.Constant(value=str(meaning))
            ):
                key = getattr(label_keys, constant)
                if key.startswith(label_keys.PREFIX):
                    yield key, meaning


def catalogue() -> str:
    """Domains, broadest first, with their keys, preferred first."""
    rows = []
    for domain, keys in KEYS.items():
        rows.append([code(domain), listed(keys)])
    return markdown(["domain", "keys"], rows)


def retired() -> str:
    """Keys that have a successor."""
    rows = []
    for key, (successor, writer) in RETIRED.items():
        rows.append([code(key), code(successor), writer])
    return markdown(["key", "successor", "written by"], rows)


def mistaken() -> str:
    """Keys that are no level."""
    head = ["key", "probably meant", "why it is not a level"]
    rows = []
    for key, (instead, why) in MISTAKEN.items():
        row = [code(key), code(instead), why]
        rows.append(row)
    for key, why in UNKNOWN.items():
        row = [code(key), "", why]
        rows.append(row)
    return markdown(head, rows)


def fields(part: str) -> str:
    """The fields of `spec`, which an administrator writes, or of the controller's `status`."""
    text = CRD.read_text(encoding="utf-8")
    crd = yaml.load(text, yaml.CSafeLoader)
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    of_part = schema["properties"][part]

    rows = []
    for path, field in _fields(of_part, part):
        row = [
            code(path),
            _type(field),
            _meaning(field),
        ]
        rows.append(row)
    return markdown(["field", "type", "meaning"], rows)


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    properties = schema.get("properties", {})
    for name, field in properties.items():
        field_path = f"{path}.{name}"
        items = field.get("items", {})
        yield field_path, field
        yield from _fields(field, field_path)
        yield from _fields(items, f"{field_path}[]")


def _type(field: dict[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}"
    return str(field.get("format", field["type"]))


def _meaning(field: dict[str, Any]) -> str:
    words = field["description"].split()
    sentences = [" ".join(words)]
    if "enum" in field:
        choices = [str(choice) for choice in field["enum"]]
        shown_choices = listed(choices)
        sentences.append(f"One of {shown_choices}.")

    default = field.get("default")
    if default:
        shown = code(str(default))
        sentences.append(f"Default: {shown}.")

    limits = ", ".join(_limits(field))
    if limits:
        first = limits[0].upper()
        rest = limits[1:]
        sentences.append(f"{first}{rest}.")
    for rule in field.get("x-kubernetes-validations", []):
        message = rule["message"]
        sentences.append(f"Rule: {message}.")
    return " ".join(sentences)


def _limits(field: dict[str, Any]) -> Iterator[str]:
    """What a value may be; that a count is not negative goes without saying."""
    for name, text in _LIMITS.items():
        if field.get(name):
            yield text.format(field[name])


def overview() -> str:
    """Every command with its line of `toposcope --help`."""
    return markdown(
        ["command", ""],
        ([f"[`toposcope {name}`](#{name})", text] for name, text in COMMANDS.items()),
    )


def flags() -> str:
    """A section for each command: what it does and all that it takes."""
    return "\n\n".join(_section(name) for name in COMMANDS)


def _section(name: str) -> str:
    text, actions = command(name)
    section = f"### {name}\n\n{text}"
    rows = [[form(action), meaning(action)] for action in actions]
    if rows:
        section += "\n\n" + markdown(["takes", "meaning"], rows)
    return section


def command(name: str) -> tuple[str, list[argparse.Action]]:
    """What a command does, and all that it takes."""
    module = importlib.import_module(module_of(name))
    parser = argparse.ArgumentParser(prog=f"toposcope {name}", add_help=False)
    module.add_arguments(parser)
    documented = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of what a parser takes
        if action.help != argparse.SUPPRESS:
            documented.append(action)

    text = module.__doc__ or COMMANDS[name]
    words = text.split()
    return " ".join(words), documented


def form(action: argparse.Action) -> str:
    """As in a usage line: `-l KEY=VALUE`, `--all`, `TOPOLOGY`."""
    metavar = _metavar(action)
    if not action.option_strings:
        return code(metavar)

    value = ""
    if action.nargs != 0:
        value = f" {metavar}"
    forms = [code(option + value) for option in action.option_strings]
    return ", ".join(forms)


def _metavar(action: argparse.Action) -> str:
    """What stands for the value of an argument in a usage line."""
    metavar = action.metavar
    if isinstance(metavar, tuple):
        metavar = " ".join(metavar)
    if metavar:
        return metavar
    if action.choices:
        choices = [str(choice) for choice in action.choices]
        return "|".join(choices)
    return action.dest.upper()


def meaning(action: argparse.Action) -> str:
    """What `--help` says of it."""
    text = (action.help or "") % vars(action)
    if action.required and action.option_strings:
        text += " (required)"
    return text


_VALUE: Final = re.compile(r"(?P<indent> *)(?P<name>\w+):(?: (?P<default>\S.*))?")


def values() -> str:
    """Every value of the chart, with its default and what the comment above it says."""
    rows: list[list[str]] = []
    path: list[str] = []
    comment: list[str] = []
    text = VALUES.read_text(encoding="utf-8")
    lines = [*text.splitlines(), ""]
    for line, following in pairwise(lines):
        match = _VALUE.fullmatch(line)
        if match is None:
            if "#" in line:
                comment.append(line.strip("# "))
            else:
                comment.clear()
            continue

        depth = len(match["indent"]) // 2
        path[depth:] = [match["name"]]
        name = code(".".join(path))
        meaning = " ".join(comment)
        default = match["default"]
        if default is not None:
            rows.append([name, code(default), meaning])
        elif comment and following.strip():
            rows.append([name, "", meaning])
        comment.clear()
    return markdown(["value", "default", "meaning"], rows)


_PINNED: Final = re.compile(r"^([\w.-]+)==(\S+)(?! ;.*win32)", re.MULTILINE)


def licences() -> str:
    """What is installed with Toposcope, with its licence.

    Packages that a lock pins for other platforms are left out.
    """
    lock = LOCK.read_text(encoding="utf-8")
    rows = []
    for name, version in _PINNED.findall(lock):
        try:
            about = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue
        rows.append([name, version, _licence(about)])
    return markdown(["package", "version", "licence"], rows)


def _licence(about: metadata.PackageMetadata) -> str:
    """A package's licence: by its expression, its text's first line, else its classifiers."""
    expression = about.json.get("license_expression")
    if expression:
        return str(expression)
    text = str(about.json.get("license", ""))
    first_line, _, _ = text.partition("\n")
    if first_line:
        return first_line

    names = []
    for entry in about.get_all("Classifier", []):
        if entry.startswith("License ::"):
            _, _, name = entry.rpartition(" :: ")
            names.append(name)
    return ", ".join(names) or "unknown"
