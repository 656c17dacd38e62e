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


def check_fields(field: Field, known: Any, rule: str, version: str) -> None:
    """Note every field below that `known` does not have.

    It is a mistake where it is close to one that is known, else maybe a newer field. `known` is the
    fields of an object (`*`: of each value of a map), a list with those of the items of a list, or
    anything else: all is allowed. `version` names whose schema it is.
    """
    if isinstance(known, list):
        if isinstance(field.value, list):
            for item in field.items():
                check_fields(item, known[0], rule, version)
    elif isinstance(known, Mapping) and isinstance(field.value, dict):
        of_others = known.get("*")
        for name, value in field.properties():
            if name in known:
                check_fields(value, known[name], rule, version)
            elif "*" in known:
                check_fields(value, of_others, rule, version)
            else:
                _note_unknown(name, value, known, rule, version)


def _note_unknown(
    name: str, field: Field, known: Mapping[str, Any], rule: str, version: str
) -> None:
    message = f'unknown field "{field.path}"'
    fix = f"{version} has no such field: kubectl rejects it, Helm drops it"
    close = did_you_mean(name, known)
    if isinstance(close, FixSuggestion):
        field.error(rule, message, f"{close} {fix}")
    elif _OPEN in known:
        return
    elif _STRICT in known:
        field.error(rule, message, fix)
    else:
        field.warn(rule, message, fix)
