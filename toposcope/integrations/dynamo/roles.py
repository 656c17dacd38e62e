"""The roles of a component that spans several nodes.

A leader and its workers, each with a pod template of its own. Rules and messages: Dynamo's webhook,
main of 2026-08. Components of LPX have other roles, and are left alone.
"""

from collections.abc import Sequence
from typing import Final

from toposcope.integrations.dynamo.overrides import LEADER, WORKER
from toposcope.integrations.framework.document import Field

_SUPPORTED: Final = (LEADER, WORKER)


def roles_of(component: Field) -> dict[str, Field]:
    """The roles by their names."""
    return {(role / "name").text() or "": role for role in (component / "roles").items()}


def check_roles(component: Field, nodes: int) -> None:
    """What Dynamo refuses of new ones."""
    roles = list((component / "roles").items())
    if not (component / "roles") or component / "lpx":
        return
    if not component / "multinode":
        text = (
            "roles are supported only for component shapes that define a role schema; "
            "this release supports multinode and LPX components"
        )
        (component / "roles").error("dynamo/roles", text, "add multinode.nodeCount, or remove them")
        return
    names = [(role / "name").text() or "" for role in roles]
    for position, (name, role) in enumerate(zip(names, roles, strict=True)):
        _check_role(name, role, nodes, twice=name in names[:position])
    for name in _SUPPORTED:
        if name not in names:
            (component / "roles").error("dynamo/roles", f'must contain the "{name}" role', "add it")
    _check_templates(component, roles)


def _check_templates(component: Field, roles: Sequence[Field]) -> None:
    """Either each role has a pod template, or the component has one for all."""
    without = [role for role in roles if not role / "podTemplate"]
    if len(without) == len(roles):
        return
    for role in without:
        text = "is required on every role when role-specific PodTemplates are used"
        fix = "write one, or use the component's for all roles"
        (role / "podTemplate").error("dynamo/roles", text, fix)
    if component / "podTemplate":
        text = (
            "cannot be combined with roles[].podTemplate; "
            "choose one complete PodTemplate source mode"
        )
        (component / "podTemplate").error("dynamo/roles", text, "move it to the roles")


def _check_role(name: str, role: Field, nodes: int, *, twice: bool) -> None:
    replicas, expected = role / "replicas", pods_of_role(name, nodes)
    if name not in _SUPPORTED:
        known = ", ".join(f'"{known}"' for known in _SUPPORTED)
        text = f'Unsupported value: "{name}": supported values: {known}'
        (role / "name").error("dynamo/roles", text, "rename it")
    elif twice:
        (role / "name").error("dynamo/roles", f'Duplicate value: "{name}"', "remove one")
    elif replicas and replicas.value != expected:
        text = f'must equal {expected} for multinode role "{name}"'
        replicas.error("dynamo/roles", text, f"write {expected}, or leave it out")


def pods_of_role(name: str, nodes: int) -> int:
    """How many of a replica's pods have the role."""
    return 1 if name == LEADER else nodes - 1
