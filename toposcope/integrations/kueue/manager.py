"""Fields of the Configuration of Kueue's manager besides quota: which jobs it manages, and when.

Source: Kueue 0.19 (apis/config: `integrations`, `waitForPodsReady`; pkg/scheduler/scheduler.go).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.api import CONFIGURATION, WORKLOAD

_FRAMEWORK_OF: Final[Mapping[tuple[str, str], str]] = {
    ("", "Pod"): "pod",
    ("apps", "Deployment"): "deployment",
    ("apps", "StatefulSet"): "statefulset",
    ("workload.codeflare.dev", "AppWrapper"): "workload.codeflare.dev/appwrapper",
}
"""The integrations whose names are not built from group and kind."""
_DEFAULT_FRAMEWORK: Final = "batch/job"
"""The integration that is enabled by default."""


def doubts(root: Field, cluster: ClusterFacts) -> Iterator[str]:
    """Why Kueue's Configuration may exclude the workload or make it wait.

    Empty if the Configuration was not read.
    """
    for document in cluster.objects.get(CONFIGURATION, ()):
        configuration = Field(document)
        framework = _framework_of(root)
        if framework and framework not in _frameworks(configuration):
            yield (
                f"Kueue's Configuration does not list {framework} in integrations.frameworks, so "
                "Kueue does not manage the workload"
            )
        waits = configuration / "waitForPodsReady" / "blockAdmission"
        if waits.value is True and _is_any_admitted(cluster):
            yield (
                "Kueue's Configuration sets waitForPodsReady.blockAdmission: nothing is admitted "
                "until the pods of all admitted Workloads are ready, which is not checked"
            )


def _framework_of(root: Field) -> str:
    """The integration that creates the Workload of an object; empty for a Workload itself."""
    kind = kind_of(root.value)
    if kind == WORKLOAD.key:
        return ""
    group, name = kind
    return _FRAMEWORK_OF.get(kind, f"{group}/{name.lower()}")


def _frameworks(configuration: Field) -> set[str]:
    """The enabled integrations."""
    integrations = configuration / "integrations"
    frameworks = set()
    for framework in (integrations / "frameworks").items():
        frameworks.add(framework.text() or "")
    for framework in (integrations / "externalFrameworks").items():
        frameworks.add(_external(framework.text() or ""))
    return frameworks or {_DEFAULT_FRAMEWORK}


def _external(kind: str) -> str:
    """The name of an external framework, `Kind.version.group`, in the form of the others."""
    name, _, version_and_group = kind.partition(".")
    _, _, group = version_and_group.partition(".")
    return f"{group}/{name.lower()}"


def _is_any_admitted(cluster: ClusterFacts) -> bool:
    for document in cluster.objects.get(WORKLOAD.key, ()):
        if Field(document) / "status" / "admission":
            return True
    return False
