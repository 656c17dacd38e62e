"""Rules between pods: affinity, anti-affinity, spread and host ports.

Rules: Kubernetes' scheduler (InterPodAffinity, PodTopologySpread, NodePorts). Only what is required
counts. A selector is read as far as labels are known: `matches` returns None if a controller may
add the label that it requires.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from toposcope.integrations.framework.controller_labels import NEW, is_added
from toposcope.integrations.framework.document import Field, kind_of, namespace_of
from toposcope.integrations.framework.node_affinity import Expression, Operator
from toposcope.integrations.framework.node_terms import term_of

Labels = tuple[tuple[str, str], ...]
"""Keys and values, sorted."""
Selector = tuple[Expression, ...]
"""All of these; the empty one matches every pod."""

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label of a namespace with its name."""
ANY_ADDRESS: Final = "0.0.0.0"
NOT_KEPT: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "controller-uid",
        "statefulset.kubernetes.io/pod-name",
    }
)
"""Labels that differ between pods, or that no one selects by hand: dropped from running pods."""


class Rule(StrEnum):
    """A rule about other pods that can exclude a node, by its field."""

    AFFINITY = "podAffinity"
    ANTI_AFFINITY = "podAntiAffinity"
    OTHERS = "podAntiAffinity of running pods"
    SPREAD = "topologySpreadConstraints"
    PORTS = "hostPort"


SCHEDULER_SAYS: Final[Mapping[Rule, str]] = {
    Rule.AFFINITY: "didn't match pod affinity rules",
    Rule.ANTI_AFFINITY: "didn't match pod anti-affinity rules",
    Rule.OTHERS: "didn't satisfy existing pods anti-affinity rules",
    Rule.SPREAD: "didn't match pod topology spread constraints",
    Rule.PORTS: "didn't have free ports for the requested pod ports",
}
"""kube-scheduler's words for nodes that a rule excludes."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A required term of pod affinity or anti-affinity."""

    key: str
    """`topologyKey`: pods with the same value of this node label are together."""
    selector: Selector | None
    """The pods that it selects; None for none."""
    namespaces: frozenset[str] | None
    """The namespaces of these pods; None for all."""
    reads_namespace_labels: bool = False
    """Whether it selects namespaces by labels that are unknown."""

    def matches(self, labels: "PodLabels") -> bool | None:
        """Whether it selects pods with these labels; None if unknown."""
        if self.selector is None:
            return False
        is_in_namespace: bool | None = True
        if self.namespaces is not None and labels.namespace not in self.namespaces:
            is_in_namespace = None if self.reads_namespace_labels else False
        return both(is_in_namespace, labels.match(self.selector))


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """A topology spread constraint with `whenUnsatisfiable: DoNotSchedule`."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector | None
    honors_affinity: bool = True
    """Whether nodes that the pod does not select are not counted."""
    honors_taints: bool = False
    """Whether nodes with taints that the pod does not tolerate are not counted."""

    def matches(self, labels: "PodLabels", namespace: str) -> bool | None:
        """Whether it counts such pods; None if unknown. `namespace` is that of its own pod."""
        if self.selector is None or labels.namespace != namespace:
            return False
        return labels.match(self.selector)


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the node that a container uses."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Whether no node can offer both."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        addresses = {self.address, other.address}
        return len(addresses) == 1 or ANY_ADDRESS in addresses

    def __str__(self) -> str:
        return f"{self.port}/{self.protocol}"


@dataclass(frozen=True, slots=True)
class PodLabels:
    """What selectors match."""

    namespace: str = "default"
    known: Labels = ()
    made_by: str | None = None
    """The API group of the object whose controllers may add labels; None if these are all."""

    def match(self, selector: Selector) -> bool | None:
        """Whether all requirements are met; None if unknown."""
        labels = dict(self.known)
        holds: bool | None = True
        for requirement in selector:
            is_met: bool | None = requirement.holds("", labels)
            if requirement.key not in labels and self._may_have(requirement):
                is_met = None
            holds = both(holds, is_met)
        return holds

    def _may_have(self, requirement: Expression) -> bool:
        """Whether a controller may add the label with one of the required values."""
        if requirement.key in NOT_KEPT:
            return requirement.values != (NEW,)
        return self.made_by is not None and is_added(requirement.key, self.made_by)


def both(first: bool | None, second: bool | None) -> bool | None:
    """Whether both are true; None is unknown."""
    if first is False or second is False:
        return False
    if first is None or second is None:
        return None
    return True


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules of one kind of pods about others, and the labels by which others select them."""

    labels: PodLabels = field(default_factory=PodLabels, compare=False)
    """Pods without rules of their own compare equal whatever their labels."""
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    ports: tuple[HostPort, ...] = ()
    own: Labels = ()
    """The labels again, for pods that have rules."""

    @property
    def asks_nothing(self) -> bool:
        """Whether it has no rule of its own."""
        return not (self.affinity or self.anti_affinity or self.spread or self.ports)

    @property
    def keys(self) -> tuple[str, ...]:
        """The labels that a node must have."""
        keys = [term.key for term in self.affinity]
        keys += [rule.key for rule in self.spread]
        return tuple(dict.fromkeys(keys))


NO_RULES: Final = PodRules()


def rules_of(spec: Field, labels: Field, added: Mapping[str, str]) -> PodRules:
    """The rules of the pod spec at `spec`. Malformed parts are recorded as findings.

    `labels` are those of its template, `added` those that its controller is known to add.
    """
    own = labels_of(spec.root, labels, added)
    affinity = spec / "affinity"
    namespace = own.namespace
    label_values = dict(own.known)
    rules = PodRules(
        labels=own,
        affinity=_terms(affinity / "podAffinity" / REQUIRED, namespace, label_values),
        anti_affinity=_terms(affinity / "podAntiAffinity" / REQUIRED, namespace, label_values),
        spread=tuple(_spread_rules(spec / "topologySpreadConstraints", label_values)),
        ports=ports_of(spec),
    )
    if rules.asks_nothing:
        return rules
    return replace(rules, own=own.known)


def labels_of(root: Field, labels: Field, added: Mapping[str, str]) -> PodLabels:
    """The labels that pods of a template in the document `root` will have."""
    label_values = {**added, **labels.texts()}
    group, kind = kind_of(root.value)
    is_pod = (group, kind) == ("", "Pod")
    return PodLabels(
        namespace=namespace_of(root),
        known=tuple(sorted(label_values.items())),
        made_by=None if is_pod else group,
    )


def rules_of_pod(
    wants: Field, labels: PodLabels, ports: tuple[HostPort, ...], repels: tuple[PodTerm, ...]
) -> PodRules:
    """The rules of a pod in the cluster; `wants` are the fields of its spec that choose nodes."""
    label_values = dict(labels.known)
    affinity = wants / "affinity" / "podAffinity" / REQUIRED
    rules = PodRules(
        labels=labels,
        affinity=_terms(affinity, labels.namespace, label_values),
        anti_affinity=repels,
        spread=tuple(_spread_rules(wants / "topologySpreadConstraints", label_values)),
        ports=ports,
    )
    if rules.asks_nothing:
        return rules
    return replace(rules, own=labels.known)


def repelled_by(affinity: Field, namespace: str, own: Mapping[str, str]) -> tuple[PodTerm, ...]:
    """The pods that a pod with this `affinity` and these labels never shares a domain with."""
    return _terms(affinity / "podAntiAffinity" / REQUIRED, namespace, own)


def _terms(terms: Field, namespace: str, own: Mapping[str, str]) -> tuple[PodTerm, ...]:
    read = []
    for term in terms.items():
        read.append(_term(term, namespace, own))
    return tuple(read)


def _term(term: Field, namespace: str, own: Mapping[str, str]) -> PodTerm:
    key = (term / "topologyKey").text() or ""
    if not key:
        (term / "topologyKey").error(
            "pods/topology-key", "can not be empty", "set it to a node label"
        )
    selector = _selector(term / "labelSelector")
    if selector is not None:
        selector = (
            *selector,
            *_own_values(term / "matchLabelKeys", "In", own),
            *_own_values(term / "mismatchLabelKeys", "NotIn", own),
        )
    names = frozenset(_texts(term / "namespaces"))
    selecting = term / "namespaceSelector"
    if not selecting:
        return PodTerm(key, selector, names or frozenset([namespace]))
    return _of_namespaces(PodTerm(key, selector, names), selecting)


def _of_namespaces(term: PodTerm, selecting: Field) -> PodTerm:
    """The term with the namespaces that a selector adds to those it names."""
    by_labels = _selector(selecting) or ()
    if not by_labels:
        return replace(term, namespaces=None)
    only = by_labels[0]
    if len(by_labels) == 1 and only.key == NAMESPACE_NAME and only.operator == "In":
        named = term.namespaces or frozenset()
        return replace(term, namespaces=named.union(only.values))
    return replace(term, reads_namespace_labels=True)


def _selector(selector: Field) -> Selector | None:
    """A label selector; None if missing, which matches no pod."""
    if not selector:
        return None
    labels = (selector / "matchLabels").texts()
    requirements = [Expression(key, "In", (value,)) for key, value in labels.items()]
    return (*requirements, *term_of(selector))


def _texts(values: Field) -> list[str]:
    texts = []
    for value in values.items():
        text = value.text()
        if text is not None:
            texts.append(text)
    return texts


def _own_values(keys: Field, operator: Operator, own: Mapping[str, str]) -> Iterator[Expression]:
    """Requirements that the API server adds for `matchLabelKeys`, for labels that exist.

    A label that a controller adds later counts as new.
    """
    for key in _texts(keys):
        value = own.get(key)
        if value is None and is_added(key, ""):
            value = NEW
        if value is not None:
            yield Expression(key, operator, (value,))


def _spread_rules(constraints: Field, own: Mapping[str, str]) -> Iterator[SpreadRule]:
    for constraint in constraints.items():
        if (constraint / "whenUnsatisfiable").text() != "DoNotSchedule":
            continue
        selector = _selector(constraint / "labelSelector")
        if selector is not None:
            selector = (*selector, *_own_values(constraint / "matchLabelKeys", "In", own))
        yield SpreadRule(
            key=(constraint / "topologyKey").text() or "",
            max_skew=(constraint / "maxSkew").number(1, least=1),
            min_domains=(constraint / "minDomains").number(1, least=1),
            selector=selector,
            honors_affinity=(constraint / "nodeAffinityPolicy").text() != "Ignore",
            honors_taints=(constraint / "nodeTaintsPolicy").text() == "Honor",
        )


def ports_of(spec: Field) -> tuple[HostPort, ...]:
    """The host ports of a pod spec; with `hostNetwork` every port is a host port."""
    on_host = (spec / "hostNetwork").flag()
    ports: list[HostPort] = []
    for container in (spec / "containers").items():
        ports += _container_ports(container, is_on_host_network=on_host)
    for container in (spec / "initContainers").items():
        if (container / "restartPolicy").text() == "Always":
            ports += _container_ports(container, is_on_host_network=on_host)
    return tuple(sorted(set(ports)))


def _container_ports(container: Field, *, is_on_host_network: bool) -> Iterator[HostPort]:
    for port in (container / "ports").items():
        number = (port / "hostPort").number(0)
        if is_on_host_network and not number:
            number = (port / "containerPort").number(0)
        if number:
            protocol = (port / "protocol").text() or "TCP"
            address = (port / "hostIP").text() or ANY_ADDRESS
            yield HostPort(number, protocol, address)


def conflict(ports: Iterable[HostPort], others: Iterable[HostPort]) -> HostPort | None:
    """The first of these ports that is taken by the others; None if all are free."""
    other_ports = tuple(others)
    for port in ports:
        for other_port in other_ports:
            if port.conflicts(other_port):
                return port
    return None


def without_spread(rules: PodRules) -> PodRules:
    """The rules for a scheduler that ignores topology spread constraints."""
    return replace(rules, spread=())
