"""Node selectors, read from documents. Malformed parts are recorded as findings."""

from collections.abc import Iterator

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import (
    OPERATORS,
    Expression,
    NodeFilter,
    Terms,
    Toleration,
)


def terms_of(selector: Field) -> Terms:
    """The terms of a node selector."""
    terms = []
    for term in (selector / "nodeSelectorTerms").items():
        terms.append(term_of(term))
    return tuple(terms)


def node_filter_of(spec: Field) -> NodeFilter:
    """The nodes that a pod spec allows, wherever its volumes are."""
    affinity = spec / "affinity" / "nodeAffinity" / "requiredDuringSchedulingIgnoredDuringExecution"
    tolerations = []
    for toleration in (spec / "tolerations").items():
        tolerations.append(toleration_of(toleration))

    selector = (spec / "nodeSelector").texts()
    return NodeFilter(
        selector=tuple(sorted(selector.items())),
        terms=terms_of(affinity),
        tolerations=tuple(tolerations),
    )


def term_of(term: Field) -> tuple[Expression, ...]:
    """A term of a node selector. Malformed parts are recorded as findings."""
    expressions: list[Expression] = []
    for requirement in (term / "matchExpressions").items():
        expressions += _expressions(requirement, is_on_fields=False)
    for requirement in (term / "matchFields").items():
        expressions += _expressions(requirement, is_on_fields=True)
    return tuple(expressions)


def _expressions(requirement: Field, *, is_on_fields: bool) -> Iterator[Expression]:
    """A requirement of a term; None if its operator is unknown."""
    key = (requirement / "key").text() or ""
    operator_field = requirement / "operator"
    name = operator_field.text()
    for operator in OPERATORS:
        if operator == name:
            values = _texts(requirement / "values")
            yield Expression(key, operator, values, is_on_fields)
            return
    text = f"{name!r} is not one of {', '.join(OPERATORS)}"
    operator_field.error("pods/operator", text)


def _texts(values: Field) -> tuple[str, ...]:
    texts = []
    for value in values.items():
        text = value.text()
        if text is not None:
            texts.append(text)
    return tuple(texts)


def toleration_of(toleration: Field) -> Toleration:
    """One toleration, of a pod or of a request for devices."""
    return Toleration(
        key=(toleration / "key").text() or "",
        operator=(toleration / "operator").text() or "Equal",
        value=(toleration / "value").text() or "",
        effect=(toleration / "effect").text() or "",
    )
