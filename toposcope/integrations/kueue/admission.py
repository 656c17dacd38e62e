"""Where Kueue assigned the pods of a Workload: `status.admission` in the forms of v1beta1 and v1beta2.

v1beta1 lists every domain (`domains`); v1beta2 compresses them (`slices`): one value for a whole slice of domains, or a
root for each with a common prefix and suffix. Source: Kueue 0.19, apis/kueue/v1beta2/workload_types.go.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import Object


@dataclass(frozen=True, slots=True)
class AssignedDomain:
    """One domain with the pods that it got; `values` are those of the labels `levels`, broadest first."""

    pod_set: str
    levels: tuple[str, ...]
    values: tuple[str, ...]
    pods: int


def assigned_domains(workload: Object) -> Iterator[AssignedDomain]:
    """The domains of a Workload's admission; none where it is not admitted. What is malformed is passed over."""
    for pod_set in (Field(workload) / "status" / "admission" / "podSetAssignments").items():
        name, assignment = (pod_set / "name").text() or "main", pod_set / "topologyAssignment"
        levels = tuple(level.text() or "" for level in (assignment / "levels").items())
        for domain in (assignment / "domains").items():
            values = tuple(value.text() or "" for value in (domain / "values").items())
            yield AssignedDomain(name, levels, values, (domain / "count").number(1))
        for piece in (assignment / "slices").items():
            domains = (piece / "domainCount").number(0)
            columns = [list(_values(level, domains)) for level in (piece / "valuesPerLevel").items()]
            counts = [count.number(1) for count in (piece / "podCounts" / "individual").items()]
            everywhere = (piece / "podCounts" / "universal").number(1)
            for number, values in enumerate(zip(*columns, strict=False)):
                yield AssignedDomain(name, levels, values, counts[number] if number < len(counts) else everywhere)


def _values(level: Field, domains: int) -> Iterator[str]:
    if universal := (level / "universal").text():
        # No more than the domains that the other levels name; a slice of one level has but this one.
        yield from (universal for _ in range(min(domains, _MOST)))
        return
    individual = level / "individual"
    prefix, suffix = (individual / "prefix").text() or "", (individual / "suffix").text() or ""
    yield from (f"{prefix}{root.text() or ''}{suffix}" for root in (individual / "roots").items())


_MOST = 100_000
"""Kueue's own limit of domains in a slice."""
