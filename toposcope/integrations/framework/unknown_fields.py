"""Fields that a resource's schema does not have.

kubectl validates strictly and the API server refuses them; for other clients (Helm, controllers) it
drops them with a warning, and what they should have said is lost.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from toposcope.api.yaml_text import load
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import did_you_mean

_STRICT: Final = "*strict*"
_OPEN: Final = "*open*"


@functools.cache
def schema(name: str) -> Any:
    """What `fields.yaml` knows of a kind, as `check_fields` takes it."""
    return load(Path(__file__).with_name("fields.yaml").read_bytes())[name]


def check_fields(field: Field, known: Any, rule: str, version: str) -> None:
    """Note every field below that `known` does not have: a mistake where it is close to one, else maybe a newer field.

    `known` is the fields of an object (`*`: of each value of a map), a list with those of the items of a list, or
    anything else: all is allowed. `version` names whose schema it is.
    """
    if isinstance(known, list):
        for item in field.items() if isinstance(field.value, list) else ():
            check_fields(item, known[0], rule, version)
    elif isinstance(known, Mapping) and isinstance(field.value, dict):
        for name, value in field.properties():
            if name in known or "*" in known:
                check_fields(value, known.get(name, known.get("*")), rule, version)
                continue
            fix, close = (
                f"{version} has no such field: kubectl refuses it, Helm loses it",
                did_you_mean(name, known),
            )
            meant = close.startswith("did you mean")
            note = Field.error if meant or _STRICT in known else Field.warn
            if not meant and _OPEN in known:
                continue
            note(value, rule, f'unknown field "{value.path}"', f"{close} {fix}" if meant else fix)
