"""The path of a pod's node as it was when the pod was bound, as an admission policy writes it.

One annotation has all of it, broadest first: `block=b1,rack=r2,host=n7`. A label for each level has
its value: `gpu.topology/path-rack: r2`.
"""

from collections.abc import Mapping
from typing import Final

from toposcope.api.label_keys import PREFIX

ANNOTATION: Final = PREFIX + "path"
LABEL: Final = ANNOTATION + "-"
"""How the labels begin; the level's domain follows."""


def placed_path(annotations: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """The value by domain that a pod was bound to; empty where it does not say.

    What is no step of a path is skipped.
    """
    path = {}
    for step in annotations.get(ANNOTATION, "").split(","):
        domain, equals, value = step.partition("=")
        if domain and equals and value:
            path[domain] = value
    for key, value in labels.items():
        if key.startswith(LABEL) and value:
            path[key.removeprefix(LABEL)] = value
    return path
