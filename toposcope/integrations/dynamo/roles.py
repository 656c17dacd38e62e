"""The roles of a component that spans several nodes: a leader and its workers.

A role may have a pod template of its own. Rules and messages: Dynamo's webhook, main of 2026-08.
Components of LPX have other roles and are not checked.
"""

from collections.abc import Sequence
from typing import Final

from toposcope.integrations.dynamo.overrides import LEADER, WORKER
from toposcope.integrations.framework.document import Field

_SUPPORTED: Final = (LEADER, WORKER)


def roles_of(component: Field) -> dict[str, Field]:
    """The roles by their names."""
    by_name = {}
    for role in (component / "roles").items():
        name = (role / "name").text() or ""
        by_name[name] = role
    return by_name


def check_roles(component: Field, nodes: int) -> None:
    """Note what Dynamo rejects in new ones."""
    field = component / "roles"
    roles = list(field.items())
    if not field or component / "lpx":
        return
    if not component / "multinode":
        text = (
            "roles are supported only for component shapes that define a role schema; "
            "this release supports multinode and LPX components"
        )
        field.error("dynamo/roles", text, "add multinode.nodeCount, or remove them")
        return

    names = [(role / "name").text() or "" for role in roles]
    earlier: set[str] = set()
    for name, role in zip(names, roles, strict=True):
        _check_role(name, role, nodes, is_duplicate=name in earlier)
        earlier.add(name)
    for name in _SUPPORTED:
        if name not in earlier:
            field.error("dynamo/roles", f'must contain the "{name}" role', "add it")
    _check_templates(component, roles)


def _check_templates(component: Field, roles: Sequence[Field]) -> None:
    """Note templates unless each role has one, or the component has one for all."""
    without = [role for role in roles if not role / "podTemplate"]
    if len(without) == len(roles):
        return
    for role in without:
        text = "is required on every role when role-specific PodTemplates are used"
        fix = "set one, or use the component's for all roles"
        (role / "podTemplate").error("dynamo/roles", text, fix)

    shared = component / "podTemplate"
    if shared:
        text = (
            "cannot be combined with roles[].podTemplate; "
            "choose one complete PodTemplate source mode"
        )
        shared.error("dynamo/roles", text, "move it to the roles")


def _check_role(name: str, role: Field, nodes: int, *, is_duplicate: bool) -> None:
    rule = "dynamo/roles"
    field = role / "name"
    if name not in _SUPPORTED:
        text = f'Unsupported value: "{name}": supported values: "{LEADER}", "{WORKER}"'
        field.error(rule, text, "rename it")
        return
    if is_duplicate:
        field.error(rule, f'Duplicate value: "{name}"', "remove one")
        return

    replicas = role / "replicas"
    expected = pods_of_role(name, nodes)
    if replicas and replicas.value != expected:
        text = f'must equal {expected} for multinode role "{name}"'
        fix = f"set {expected}, or remove it"
        replicas.error(rule, text, fix)


def pods_of_role(name: str, nodes: int) -> int:
    """How many of a replica's pods have the role."""
    if name == LEADER:
        return 1
    return nodes - 1
