"""How tables of tests/fixtures/placement/ write what was read: findings as lines, and how a workload was understood."""

from collections.abc import Iterator

from tests.support.documents import Edits, edited
from toposcope.integrations.framework.constraints import Group, Pods, Workload
from toposcope.integrations.framework.system import Reading

__all__ = ["Edits", "edited", "findings", "understood"]


def findings(reading: Reading | None, *, fixes: bool = False) -> str:
    """Each finding as a line."""
    lines = []
    for finding in reading.findings if reading else ():
        lines.append(f"{finding.severity} {finding.rule} {finding.field}: {finding.message}")
        lines += [f"  fix: {finding.fix}"] * fixes
    return "\n".join(lines)


def understood(reading: Reading | None) -> str:
    """The workload of a reading: what is kept together where, its pods, what is placed at once, and the notes."""
    if reading is None:
        return "nobody reads it"
    if reading.workload is None:
        return "asks for nothing"
    workloads = [reading.workload, *reading.stages]
    lines = [line for workload in workloads for line in _workload(workload)]
    return "\n".join(lines + [f"or on {other.topology}" for other in reading.alternatives])


def _workload(workload: Workload) -> Iterator[str]:
    levels = ", ".join(level.key for level in workload.levels)
    on = f" on {workload.topology}" if workload.topology else f" on labels {levels}" if levels else ""
    gang = {None: "", True: ", a gang", False: ", one by one"}[workload.gang]
    yield f"{workload.system} {workload.handle}{on}{gang}{'' if workload.placeable else ', not placeable'}"
    for group in workload.groups:
        yield from _group(group, "  ")
    for group in workload.pod_groups:
        yield from _group(group, "  at once: ")
    yield from (f"  note: {note}" for note in workload.notes)


def _group(group: Group, indent: str) -> Iterator[str]:
    levels = [f"required {group.required.domain}"] if group.required else []
    levels += [f"preferred {group.preferred.domain}"] if group.preferred else []
    levels += [f"apart by {group.anti_affinity}"] if group.anti_affinity else []
    times = f"{group.copies} x " if group.copies != 1 else ""
    pods = [", ".join(levels)] * bool(levels) + [_pods(pods) for pods in group.pods]
    yield f"{indent}{times}{group.name}{': ' if pods else ''}{'; '.join(pods)}"
    for inner in group.groups:
        yield from _group(inner, " " * (len(indent) + 2))


def _pods(pods: Pods) -> str:
    requests = " ".join(f"{resource}={amount}" for resource, amount in pods.requests)
    each = f" ({requests})" if requests else ""
    chosen = pods.node_filter
    where = [f"{key}={value}" for key, value in chosen.selector]
    where += [f"{part.key} {part.operator} {' '.join(part.values)}" for term in chosen.terms for part in term]
    where += [f"tolerates {part.key} {part.operator} {part.effect}" for part in chosen.tolerations]
    on = f" on nodes with {', '.join(where)}" if where else ""
    return f"{pods.count} {pods.name}{each}{on}"
