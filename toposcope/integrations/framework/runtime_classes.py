"""What a pod's RuntimeClass adds to it.

Source: Kubernetes 1.36 (plugin/pkg/admission/runtimeclass). Messages are the API server's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toposcope.integrations.framework.constraints import Hold
from toposcope.integrations.framework.containers import amounts_of, written_amounts
from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.pod_kinds import RUNTIME_CLASSES
from toposcope.kube.pod_resources import Requests

_MISSING: Hold = Hold("never", "the API server rejects its pods")


@dataclass(frozen=True, slots=True)
class RuntimeEffect:
    """The effect of a RuntimeClass on a pod."""

    overhead: Requests = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Field = field(default_factory=lambda: Field(None))
    hold: Hold | None = None


def runtime_of(spec: Field) -> RuntimeEffect:
    """What the RuntimeClass of a pod spec adds. Records what the API server rejects as findings."""
    overhead = amounts_of(spec / "overhead")
    where = spec / "runtimeClassName"
    name = where.text()
    if not name:
        if overhead:
            _warn_of_overhead(spec / "overhead")
        return RuntimeEffect(overhead)

    for document in spec.surroundings.each(RUNTIME_CLASSES):
        if name_of(Field(document)) == name:
            return _with_class(spec, Field(document), overhead)
    if not spec.surroundings.knows_all(RUNTIME_CLASSES):
        reason = (
            f"RuntimeClass {name} was not read, so the overhead, node selector and tolerations "
            "that it adds are unknown"
        )
        return RuntimeEffect(overhead, hold=Hold("unclear", reason, can_open_nodes=True))

    message = f'pod rejected: RuntimeClass "{name}" not found'
    where.error("pods/runtime-class-exists", message, "create it, or name one that exists")
    return RuntimeEffect(overhead, hold=_MISSING)


def _warn_of_overhead(overhead: Field) -> None:
    """Warn about overhead without a class: a queue admits the workload, but pods are rejected."""
    message = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    overhead.warn("pods/overhead", message, "remove it: the RuntimeClass sets it")


def _with_class(spec: Field, runtime_class: Field, written: Requests) -> RuntimeEffect:
    overhead = written_amounts((runtime_class / "overhead" / "podFixed").value)
    if written and written != overhead:
        message = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        (spec / "overhead").error("pods/overhead", message, "leave it out")
        return RuntimeEffect(overhead, hold=_MISSING)

    scheduling = runtime_class / "scheduling"
    selector = (scheduling / "nodeSelector").texts()
    own = spec / "nodeSelector"
    for key, value in selector.items():
        mine = (own / key).text()
        if mine is not None and mine != value:
            message = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {mine}"
            )
            (own / key).error("pods/runtime-class-selector", message, f"write {value}")
            return RuntimeEffect(overhead, hold=_MISSING)
    return RuntimeEffect(overhead, selector, scheduling / "tolerations")
