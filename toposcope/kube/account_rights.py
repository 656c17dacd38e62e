"""Whether RBAC grants this program's ServiceAccount more than it needs.

One SelfSubjectRulesReview lists them. Admission policies refuse what RBAC must grant; what RBAC
grants beyond that, no policy looks at.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError
from toposcope.text import compact

log = logging.getLogger(__name__)

_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_FORBIDDEN_TO_ASK: Final = frozenset({401, 403, 404, 405})
_MOST_NAMED_RIGHTS: Final = 5
_ALL: Final = "*"

_WATCHED_GROUPS: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apps",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "gpu.topology",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
    }
)
_WATCHED_CORE: Final = frozenset(
    {
        "bindings",
        "configmaps",
        "events",
        "namespaces",
        "nodes",
        "persistentvolumes",
        "pods",
        "replicationcontrollers",
        "secrets",
        "serviceaccounts",
        "services",
    }
)
"""API groups whose rights are checked.

Others are left alone, because some distributions grant every account rights of their own, as
OpenShift does on its projects.
"""
_READS: Final = frozenset({"get", "list", "watch"})
"""Reading verbs, which are checked in the core group alone.

Kubernetes 1.37 grants every ServiceAccount the reading of ClusterTrustBundles.
"""


_ESCALATING: Final = frozenset({"impersonate", "bind", "escalate"})


class Right(NamedTuple):
    """One verb on one resource, perhaps a subresource, perhaps only on objects of some names."""

    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as `patch nodes/status` or `get secrets`."""
        verb = "do anything with" if self.verb == _ALL else self.verb
        return f"{verb} {self._place()}"

    def _place(self) -> str:
        if self.resource == _ALL and self.group == _ALL:
            return "all resources"
        if self.resource == _ALL:
            return f"all resources of {self.group or 'the core group'}"
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def is_sensitive(self) -> bool:
        """Whether this right is one of those that are checked."""
        if _ALL in (self.group, self.verb) or self.verb in _ESCALATING:
            return True
        if self.group:
            return self.group in _WATCHED_GROUPS and self.verb not in _READS
        resource, _, _ = self.resource.partition("/")
        return resource == _ALL or resource in _WATCHED_CORE


def rights_of(rules: Iterable[Mapping[str, Any]]) -> list[Right]:
    """Each right of the rules of a SelfSubjectRulesReview."""
    rights = []
    for rule in rules:
        names = tuple(rule.get("resourceNames") or ())
        verbs = rule.get("verbs") or ()
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                rights += [Right(group, resource, verb, names) for verb in verbs]
    return rights


class AccountRights:
    """Finds the rights that are not `expected`.

    An expected right without names covers those with names.
    """

    def __init__(self, expected: Iterable[Right], namespace: str) -> None:
        self._expected = frozenset(expected)
        self._namespace = namespace
        self._unanswered = ""

    def excess(self, client: Caller) -> list[str]:
        """The rights that the account has and the program does not need.

        Names at most five, and says how many more there are. Where the API server lets no account
        ask, there are none, which is logged once. Raises KubeError if the server does not answer.
        """
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": self._namespace},
        }
        try:
            answer = client.call(Request("POST", _PATH, {}, compact(review).encode()))
        except ApiError as error:
            if error.status not in _FORBIDDEN_TO_ASK:
                raise
            if str(error) != self._unanswered:
                log.warning(
                    "cannot check whether this ServiceAccount has more rights than it needs: %s",
                    error,
                )
            self._unanswered = str(error)
            return []
        status = answer.get("status") or {}
        beyond = set()
        for right in rights_of(status.get("resourceRules") or ()):
            if right.is_sensitive() and not self._is_expected(right):
                beyond.add(str(right))
        named = sorted(beyond)
        if len(named) > _MOST_NAMED_RIGHTS:
            return [*named[:_MOST_NAMED_RIGHTS], f"{len(named) - _MOST_NAMED_RIGHTS} more"]
        return named

    def _is_expected(self, right: Right) -> bool:
        return right in self._expected or right._replace(names=()) in self._expected
