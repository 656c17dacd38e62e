"""What becomes of a verdict where the scheduler's own procedure is known: Kueue's queue, flavors, quota and order."""

from collections.abc import Sequence

from toposcope.integrations.framework.constraints import Admission, Decision, Group
from toposcope.integrations.framework.verdict import Placed, Verdict
from toposcope.placement.room import Node


def in_order(
    verdict: Verdict, admission: Admission, nodes: Sequence[Node], now: Decision
) -> Verdict:
    """The verdict that the procedure leads to; `now` is its decision about the nodes as they are."""
    if not now.refusal:
        if verdict.kind == "fits" or now.partly or not all(node for _, node, _ in now.placed):
            return verdict
        # What the verdict leaves out may be of another flavor than the one that is taken.
        return Verdict("fits", _placed(now)) if now.placed else verdict

    def possible() -> bool:
        return not admission.decide(nodes, emptied=True).refusal

    if now.no_flavor:
        return Verdict(
            "full" if possible() else "never", excluded=verdict.excluded, limitation=now.refusal
        )
    # Where there is never room for all of it, there may be for fewer pods, in a rack that counts as
    # one node, or in the flavor that is taken.
    if verdict.kind == "full" or (verdict.kind == "never" and not possible()):
        return verdict
    return Verdict("full", steps=verdict.steps, excluded=verdict.excluded, limitation=now.refusal)


def _placed(decision: Decision) -> tuple[Placed, ...]:
    return tuple(
        Placed(
            Group(f"pod set {pods.name}", (pods,)),
            (),
            tuple((node, count) for other, node, count in decision.placed if other == pods),
        )
        for pods in dict.fromkeys(pods for pods, _, _ in decision.placed)
    )
