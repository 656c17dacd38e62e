"""Dynamo hands a deployment's constraints to Grove, in a PodCliqueSet."""

from collections.abc import Iterator

from toposcope.explain.context import Context
from toposcope.explain.features import NAME
from toposcope.explain.kinds import CLIQUE_SET, DEPLOYMENT_GRAPH
from toposcope.explain.step import Step, passed, unknown


def look(context: Context) -> Iterator[Step]:
    """Whether the PodCliqueSet of a constrained deployment is there."""
    graphs = list(context.members(DEPLOYMENT_GRAPH))
    if not graphs or not context.topologies:
        return
    ref, _ = graphs[0]
    if any(context.members(CLIQUE_SET)):
        yield passed(NAME, "Dynamo has handed it to Grove")
        return
    hidden = context.store.hidden(CLIQUE_SET)
    yield unknown(
        NAME,
        hidden or "Dynamo has made no PodCliqueSet of it yet",
        commands=() if hidden else (f"kubectl describe dgd {ref.name} -n {ref.namespace}",),
    )
