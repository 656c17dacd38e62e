"""Where Grove serves no kind that is ours to write: what stands in its place, whether it is right, and what to do.

The operator of v0.1.0-alpha.4 to alpha.8 writes one ClusterTopology, `grove-topology`, from its own configuration and
overwrites every edit. It is compared with the levels that live nodes carry, and never written.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toposcope.integrations.framework.published import Published, Target
from toposcope.integrations.grove.kai_reference import BINDINGS, OLDER_ONES, binding_target, older_target
from toposcope.kube.client import Caller, find
from toposcope.kube.errors import ApiError
from toposcope.topology.levels import Level

_OPERATORS: Final = "grove-topology"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FORBIDDEN: Final = 403
_FIX: Final = "upgrade Grove to v0.1.0-alpha.9 or later, or set spec.publish.grove to Never"


def report(client: Caller, name: str, levels: Sequence[Level]) -> Published:
    """Say what is there in the binding's place, and how it compares with `levels`. Raises KubeError."""
    binding = binding_target(name)
    refusal = _name_conflict(client)
    if refusal:
        text = (
            f"the CRD {BINDINGS}.grove.io is not served, because {OLDER_ONES}.grove.io of an older Grove has its short "
            f"name ({refusal}); delete the CRD {OLDER_ONES}.grove.io with its objects"
        )
        return binding.not_in_sync("Conflict", text)
    operators = older_target(_OPERATORS)
    there = find(client, operators.path)
    if there is not None:
        return _compared(operators, there, levels)
    text = (
        "Grove serves the older ClusterTopology of v0.1.0-alpha.4 to alpha.8, which Grove's operator writes from its "
        f"own configuration, and no {binding.kind}; {_FIX}"
    )
    return binding.not_in_sync("NotServed", text)


def _compared(target: Target, there: Mapping[str, Any], levels: Sequence[Level]) -> Published:
    """Whether every level that the operator has written is one of `levels`, in the same order."""
    theirs = [Level(str(e.get("domain")), str(e.get("key"))) for e in (there.get("spec") or {}).get("levels") or ()]
    ours = {level.domain: level.key for level in levels}
    wrong = [
        f"level '{level.domain}' has the key {level.key}, nodes carry "
        + (f"{ours[level.domain]} for it" if level.domain in ours else "no such level")
        for level in theirs
        if ours.get(level.domain) != level.key
    ]
    if not wrong and [level for level in levels if level in theirs] != theirs:
        wrong = [f"its order is {_path(theirs)}, that of the nodes {_path(levels)}"]
    if not wrong:
        return target.in_sync("written by Grove's operator; its levels are those that nodes carry")
    text = (
        f"{'; '.join(wrong)}; Grove's operator writes it from its own configuration: correct "
        f"config.topologyAwareScheduling there, or {_FIX}"
    )
    return target.not_in_sync("Conflict", text)


def _path(levels: Sequence[Level]) -> str:
    return " > ".join(level.domain for level in levels)


def _name_conflict(client: Caller) -> str:
    """Why the API server does not accept the names of the binding's CRD; empty when that is not so, or not told."""
    try:
        crd = find(client, f"{_CRDS}/{BINDINGS}.grove.io") or {}
    except ApiError as error:
        if error.status == _FORBIDDEN:  # only the words are worse without it
            return ""
        raise
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next(
        (str(c.get("message")) for c in conditions if (c["type"], c["status"]) == ("NamesAccepted", "False")), ""
    )
