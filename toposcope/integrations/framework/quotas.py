"""Which pods the ResourceQuotas of a namespace allow.

Source: Kubernetes 1.36 (pkg/quota/v1/evaluator/core/pods.go, plugin/pkg/admission/resourcequota).
Messages are the API server's.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.constraints import Hold, Pods
from toposcope.integrations.framework.containers import (
    is_extended,
    quantity_text,
    written_amounts,
)
from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.node_affinity import Expression
from toposcope.integrations.framework.node_terms import term_of
from toposcope.integrations.framework.pod_kinds import QUOTAS
from toposcope.integrations.framework.surroundings import Surroundings
from toposcope.kube.pod_resources import Requests

_PRIORITY_CLASS: Final = "PriorityClass"
_TO_BE_SAID: Final = {
    "cpu": "requests.cpu",
    "memory": "requests.memory",
    "requests.cpu": "requests.cpu",
    "requests.memory": "requests.memory",
    "limits.cpu": "limits.cpu",
    "limits.memory": "limits.memory",
}
"""For each resource of a quota: what each container must set."""


@dataclass(frozen=True, slots=True)
class _Quota:
    """One ResourceQuota."""

    name: str
    scopes: tuple[Expression, ...]
    """All of these; the key is the scope's name."""
    hard: Requests
    used: Requests

    def covers(self, pods: Pods) -> bool:
        """Whether it counts pods of this kind."""
        for scope in self.scopes:
            if not _is_in(pods, scope):
                return False
        return True


def quota_holds(all_pods: Sequence[Pods], around: Surroundings) -> Iterator[Hold]:
    """Why not all of these pods, all in one namespace, would be created."""
    if not all_pods:
        return
    namespace = all_pods[0].creation.namespace
    for document in around.each(QUOTAS):
        written = Field(document)
        if namespace_of(written) != namespace:
            continue
        quota = _quota(written)
        counted = [pods for pods in all_pods if quota.covers(pods)]
        if counted:
            yield from _unsaid(quota, counted)
            yield from _exceeded(quota, counted)


def _quota(written: Field) -> _Quota:
    spec = written / "spec"
    scopes = []
    for scope in (spec / "scopes").items():
        scopes.append(Expression(scope.text() or "", "Exists"))
    for requirement in (spec / "scopeSelector" / "matchExpressions").items():
        scopes += _scope(requirement)
    return _Quota(
        name=name_of(written),
        scopes=tuple(scopes),
        hard=_by_quota(spec / "hard"),
        used=_by_quota(written / "status" / "used"),
    )


def _scope(requirement: Field) -> tuple[Expression, ...]:
    """A requirement of a scope selector, in the form of a node selector's."""
    renamed = {
        "key": (requirement / "scopeName").value,
        "operator": (requirement / "operator").value,
        "values": (requirement / "values").value,
    }
    return term_of(Field({"matchExpressions": [renamed]}))


def _by_quota(quantities: Field) -> dict[str, int]:
    """Quantities, in the units of the resource that a quota's name ends in."""
    amounts = {}
    if isinstance(quantities.value, dict):
        for name, quantity in quantities.value.items():
            resource = _resource(str(name))
            amount = written_amounts({resource: quantity}).get(resource)
            if amount is not None:
                amounts[str(name)] = amount
    return amounts


def _resource(name: str) -> str:
    """`cpu` of `limits.cpu`."""
    for prefix in ("requests.", "limits."):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _is_in(pods: Pods, scope: Expression) -> bool:
    creation = pods.creation
    labels = {}
    if creation.priority.class_name:
        labels[_PRIORITY_CLASS] = creation.priority.class_name
    is_in = {
        "Terminating": creation.has_deadline,
        "NotTerminating": not creation.has_deadline,
        "BestEffort": creation.is_best_effort,
        "NotBestEffort": not creation.is_best_effort,
        "CrossNamespacePodAffinity": creation.has_cross_namespace_terms,
        _PRIORITY_CLASS: scope.holds("", labels),
    }
    return is_in.get(scope.key, False)  # others are of other objects than pods


def _unsaid(quota: _Quota, counted: Iterable[Pods]) -> Iterator[Hold]:
    """The resources that a quota requires containers to set, and that are unset."""
    wanted = {unset_field for name, unset_field in _TO_BE_SAID.items() if name in quota.hard}
    missing: dict[str, dict[str, None]] = {}
    for pods in counted:
        for unset_field, container in pods.creation.unset:
            if unset_field in wanted:
                missing.setdefault(unset_field, {})[container] = None
    if missing:
        parts = []
        for unset_field, containers in sorted(missing.items()):
            parts.append(f"{unset_field} for: {','.join(containers)}")
        reason = f"failed quota: {quota.name}: must specify {'; '.join(parts)}"
        yield Hold("never", f"the API server rejects its pods: {reason}")


def _exceeded(quota: _Quota, counted: Iterable[Pods]) -> Iterator[Hold]:
    need = Counter[str]()
    for pods in counted:
        for name, amount in _usage(pods).items():
            need[name] += amount * pods.count

    over = []
    is_possible = True
    for name, most in quota.hard.items():
        if need[name] and need[name] + quota.used.get(name, 0) > most:
            over.append(name)
            is_possible = is_possible and need[name] <= most
    if not over:
        return
    requested = _texts(over, need)
    used = _texts(over, quota.used)
    limited = _texts(over, quota.hard)
    reason = (
        f"exceeded quota: {quota.name}, requested: {requested}, used: {used}, limited: {limited}"
    )
    yield Hold("full" if is_possible else "never", f"not all of its pods are created: {reason}")


def _texts(names: Iterable[str], amounts: Mapping[str, int]) -> str:
    texts = []
    for name in names:
        quantity = quantity_text(_resource(name), amounts.get(name, 0))
        texts.append(f"{name}={quantity}")
    return ",".join(texts)


def _usage(pods: Pods) -> dict[str, int]:
    """How much of a quota one pod uses."""
    usage = {"pods": 1, "count/pods": 1}
    for resource, amount in pods.requests:
        usage[f"requests.{resource}"] = amount
        if not is_extended(resource):
            usage[resource] = amount
    for resource, amount in pods.creation.limits:
        if not is_extended(resource):
            usage[f"limits.{resource}"] = amount
    return usage
