"""Fields that a resource's schema does not have.

With kubectl, which validates strictly, the API server rejects them; from other clients (Helm,
controllers) it drops them with a warning.

What a system's kinds have is in its `fields.yaml`. Nothing stands where everything below a field is
left alone; `*` is each other field. Of an object with `*strict*`, which is small and stable, any
other field is a mistake; of one with `*open*`, which has others, only those close to one of these.
Else a field that is close to none is a warning: newer versions may have it.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from toposcope.api.yaml_text import load
from toposcope.integrations.framework.document import Field, FixSuggestion
from toposcope.integrations.framework.levels import did_you_mean

_STRICT: Final = "*strict*"
_OPEN: Final = "*open*"


@functools.cache
def schema(system: str, kind: str) -> Any:
    """What the `fields.yaml` of a system knows of a kind, as `check_fields` takes it."""
    integrations = Path(__file__).parents[1]
    file = integrations / system / "fields.yaml"
    kinds = load(file.read_bytes())
    return kinds[kind]


def check_fields(field: Field, fields: Any, rule: str, version: str) -> None:
    """Note every field below that `fields` does not have.

    A field close to a known one is a mistake; another one may be newer. `fields` are the fields of
    an object (`*`: of each value of a map), a list with those of the items of a list, or anything
    else, which allows all. `version` names whose schema it is.
    """
    if isinstance(fields, list):
        if isinstance(field.value, list):
            for item in field.items():
                check_fields(item, fields[0], rule, version)
    elif isinstance(fields, Mapping) and isinstance(field.value, dict):
        of_others = fields.get("*")
        for name, value in field.properties():
            if name in fields:
                check_fields(value, fields[name], rule, version)
            elif "*" in fields:
                check_fields(value, of_others, rule, version)
            else:
                _note_unknown(name, value, fields, rule, version)


def _note_unknown(
    name: str, field: Field, fields: Mapping[str, Any], rule: str, version: str
) -> None:
    message = f'unknown field "{field.path}"'
    fix = f"{version} has no such field: kubectl rejects it, Helm drops it"
    close = did_you_mean(name, fields)
    if isinstance(close, FixSuggestion):
        field.error(rule, message, f"{close} {fix}")
    elif _OPEN in fields:
        return
    elif _STRICT in fields:
        field.error(rule, message, fix)
    else:
        field.warn(rule, message, fix)
