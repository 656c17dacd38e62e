"""The controller's configuration file."""

from typing import Any, Final

from controller.config import UnreadableError, read_config
from fuzz.material import encoded, text_of
from fuzz.subject import Outcome, Subject, held, refusal
from topology.catalogue import BUILT_IN

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


def attempt(case: Any) -> Outcome:
    """The catalogue always holds what is built in; each problem names the file."""
    try:
        config = read_config(case, "config.yaml")
    except UnreadableError as error:
        held(str(error).startswith("config.yaml"), f"the file is not named: {error}")
        return refusal(error)
    for problem in config.problems:
        held(problem.startswith("config.yaml:"), f"no file and line: {problem}")
        refusal(problem)
    for domain, keys in BUILT_IN.keys.items():
        held(set(keys) <= {*config.catalogue.keys.get(domain, ()), *_moved(config)}, f"the keys of {domain} are lost")
    return "refused" if config.problems else "taken"


def _moved(config: Any) -> set[str]:
    return {key for keys in config.catalogue.keys.values() for key in keys}


CONFIGS: Final = Subject(
    "configs",
    "a bad entry is named with file and line, and the rest stays in force",
    encoded(text_of([_GOOD], _WORDS)),
    attempt,
    guided=True,
)
