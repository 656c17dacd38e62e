"""Names of objects, which the API server rejects if they are not DNS subdomains.

Source: apimachinery (IsDNS1123Subdomain), which all kinds read here use for their names at least.
"""

import re
from typing import Final

from toposcope.integrations.framework.document import Field, kind_of

_MAX_CHARACTERS: Final = 253
"""Characters."""
_LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_RULE: Final = "object/name"
_MEANING: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character"
)


def check_name(root: Field) -> None:
    """Note a name that the API server rejects, unless it is already noted."""
    if kind_of(root.value) == ("", ""):
        return
    field = root / "metadata" / "name"
    name = field.value
    if not isinstance(name, str) or not name:
        return
    if any(finding.field == field.path for finding in root.findings):
        return
    if len(name) > _MAX_CHARACTERS:
        field.malformed(
            _RULE, f"must be no more than {_MAX_CHARACTERS} characters", "use a shorter name"
        )
    elif not _SUBDOMAIN.fullmatch(name):
        field.malformed(_RULE, _MEANING, "use lower-case letters, digits and '-'")
