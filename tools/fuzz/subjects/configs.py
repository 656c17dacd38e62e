"""The controller's configuration file."""

import json
from typing import Any, Final

from hypothesis import strategies as st

from tools.fuzz.material import encoded, spoiled, text_of
from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.api.controller_config import API_VERSION, KIND, UnreadableError, read_config
from toposcope.topology.catalogue import BUILT_IN, Catalogue

_GOOD: Final = """\
apiVersion: config.gpu.topology/v1alpha1
kind: ControllerConfig
catalogue:
  domains:
  - {name: row, after: block, keys: [example.com/row]}
  - name: pod
    after: row
    keys:
    - example.com/pod
  keys:
  - {key: example.com/rack, domain: rack, position: Preferred}
  placeholders: [unknown, "0"]
  nearMisses:
  - {key: example.com/rak, instead: example.com/rack, why: a typing error of 2024}
"""
_WORDS: Final = (
    "rack", "row", "host", "after:", "block", "Fallback", "example.com/row", "gpu.topology/nvlink-domain", "&a", "*a",
    "<<: *a", "!!python/object:os.system", "!!binary", "? ", "|", ">", "---", "...", "%YAML 9.9", "{", "}",
    "[", "]", "#",
)  # fmt: skip


_ENTRIES: Final[dict[str, list[Any]]] = {
    "domains": [{"name": "row", "after": "block", "keys": ["example.com/row"]}],
    "keys": [{"key": "example.com/rack", "domain": "rack", "position": "Preferred"}],
    "placeholders": ["unknown"],
    "nearMisses": [{"key": "example.com/rak", "instead": "example.com/rack", "why": "a typing error of 2024"}],
}
_UNTOUCHED: Final[dict[str, Any]] = {
    "domains": {"name": "aisle", "after": "zone", "keys": ["example.org/aisle"]},
    "keys": {"key": "example.org/shelf", "domain": "rack"},
    "placeholders": "nowhere",
    "nearMisses": {"key": "example.org/shelv", "instead": "example.org/shelf", "why": "a typing error of 2025"},
}
"""Good entries beside bad ones, of names that no bad one has."""


def attempt(case: Any) -> Outcome:
    """The catalogue always holds what is built in and what is well; each problem names the file."""
    content = case if isinstance(case, bytes) else _with_untouched(case)
    try:
        config = read_config(content, "config.yaml")
    except UnreadableError as error:
        held(str(error).startswith("config.yaml"), f"the file is not named: {error}")
        return refusal(error)
    for problem in config.problems:
        held(problem.startswith("config.yaml:"), f"no file and line: {problem}")
        refusal(problem)
    for domain, keys in BUILT_IN.keys.items():
        held(set(keys) <= {*config.catalogue.keys.get(domain, ()), *_moved(config)}, f"the keys of {domain} are lost")
    if not isinstance(case, bytes):
        _in_force(config.catalogue)
    return "refused" if config.problems else "taken"


def _with_untouched(entries: dict[str, list[Any]]) -> bytes:
    """A file of the bad entries, each followed by a good one, as the JSON that is YAML too."""
    catalogue = {part: [*entries[part], good] for part, good in _UNTOUCHED.items()}
    document = {"apiVersion": API_VERSION, "kind": KIND, "catalogue": catalogue}
    return json.dumps(document, ensure_ascii=True).encode()


def _in_force(catalogue: Catalogue) -> None:
    held("example.org/aisle" in catalogue.keys.get("aisle", ()), "a good domain is lost beside a bad one")
    held("example.org/shelf" in catalogue.keys["rack"], "a good key is lost beside a bad one")
    held("nowhere" in catalogue.placeholders, "a good placeholder is lost beside a bad one")
    held("example.org/shelv" in catalogue.advice, "a good near miss is lost beside a bad one")


def _moved(config: Any) -> set[str]:
    return {key for keys in config.catalogue.keys.values() for key in keys}


CONFIGS: Final = Subject(
    "configs",
    "a bad entry is named with file and line, and the rest stays in force",
    st.one_of(
        encoded(text_of([_GOOD], _WORDS)),
        st.fixed_dictionaries({part: st.lists(spoiled(entries), max_size=2) for part, entries in _ENTRIES.items()}),
    ),
    attempt,
    guided=True,
)
