"""PersistentVolumeClaims that Dynamo mounts into the pods of a component.

v1alpha1 names those of `spec.pvcs` in `volumeMounts` of a service, v1beta1 one in
`compilationCache`. Source: Dynamo's operator (main of 2026-09, api/v1alpha1).
"""

from collections.abc import Sequence
from typing import Any

from toposcope.integrations.framework.document import Field


def claimed_volumes(component: Field) -> Sequence[str]:
    """The names of existing claims. Those that Dynamo creates are not known yet."""
    created = set()
    for claim in (component.root / "spec" / "pvcs").items():
        if (claim / "create").flag():
            created.add((claim / "name").text() or "")
    fields = [mount / "name" for mount in (component / "volumeMounts").items()]
    fields.append(component / "compilationCache" / "pvcName")
    names: dict[str, None] = {}
    for field in fields:
        name = field.text()
        if name and name not in created:
            names[name] = None
    return list(names)


def with_volumes(spec: Field, claims: Sequence[str]) -> Field:
    """The pod spec with volumes of these claims."""
    if not claims:
        return spec
    volumes: list[Any] = []
    for volume in (spec / "volumes").items():
        volumes.append(volume.value)
    for claim in claims:
        source = {"claimName": claim}
        volumes.append({"name": claim, "persistentVolumeClaim": source})
    value: dict[str, Any] = {}
    if isinstance(spec.value, dict):
        value.update(spec.value)
    value["volumes"] = volumes
    return spec.with_value(value)
