"""The Jobs of a CronJob: each run is one, and may start while the previous one still runs."""

from typing import Final

from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.making import NOTHING, Made, Maker, in_namespace_of
from toposcope.integrations.framework.system import ClusterFacts


def _job(root: Field, _: ClusterFacts) -> tuple[Made, ...]:
    template = root / "spec" / "jobTemplate"
    if not isinstance(template.value, dict):
        return NOTHING
    created = dict(in_namespace_of(root, template.value))
    created |= {"apiVersion": "batch/v1", "kind": "Job"}
    created["metadata"] = {**created["metadata"], "generateName": f"{name_of(root)}-"}
    return (Made(template.path, created),)


MADE: Final[dict[tuple[str, str], Maker]] = {("batch", "CronJob"): _job}
