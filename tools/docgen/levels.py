"""The catalogue of levels."""

from tools.docgen.markdown import code, listed, table
from toposcope.topology.platforms import KEYS, MISTAKEN, RETIRED, UNKNOWN


def catalogue() -> str:
    """Domains, broadest first, with their keys, preferred first."""
    return table(["domain", "keys"], ([code(domain), listed(keys)] for domain, keys in KEYS.items()))


def retired() -> str:
    """Keys that have a successor."""
    return table(
        ["key", "successor", "written by"],
        ([code(key), code(instead), writer] for key, (instead, writer) in RETIRED.items()),
    )


def mistaken() -> str:
    """Keys that are no level."""
    known = ([code(key), code(instead), why] for key, (instead, why) in MISTAKEN.items())
    unknown = ([code(key), "", why] for key, why in UNKNOWN.items())
    return table(["key", "what was meant", "why it is none"], [*known, *unknown])
