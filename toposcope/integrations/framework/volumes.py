"""Where pods can use the volumes that they claim.

Source: Kubernetes 1.36 (plugins VolumeBinding, VolumeZone and VolumeRestrictions). Free space of a
storage driver and the number of volumes per node are not checked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.constraints import Hold
from toposcope.integrations.framework.containers import written_amounts
from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.node_affinity import (
    NODE_NAME,
    Expression,
    Terms,
    VolumePlace,
)
from toposcope.integrations.framework.node_terms import terms_of
from toposcope.integrations.framework.pod_kinds import VOLUME_CLAIMS, VOLUMES
from toposcope.integrations.framework.storage_classes import StorageClass, class_of

_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_ZONES: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of a volume that its node must have too."""
_AVAILABLE: Final = "Available"
_MOST_DIGITS: Final = 18
"""The label with a pod's index in its StatefulSet."""
_ONE_POD: Final = "ReadWriteOncePod"
_ONE_NODE: Final = "ReadWriteOnce"


@dataclass(frozen=True, slots=True)
class ClaimedVolume:
    """How the claim of a pod affects its placement."""

    place: VolumePlace | None = None
    """None for any node, as far as is known."""
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class _Claim:
    """A PersistentVolumeClaim, or what will become one."""

    name: str
    written: Field
    where: Field
    """The name of its volume in the pod."""
    pods: int
    """How many pods use it."""

    @property
    def spec(self) -> Field:
        return self.written / "spec"

    @property
    def access_modes(self) -> list[str]:
        """`ReadWriteOnce` and the like."""
        modes = _texts(self.spec / "accessModes")
        return list(modes)

    @property
    def is_new(self) -> bool:
        """Whether it is not in the cluster yet: the API server sets a phase on each claim."""
        return not (self.written / "status" / "phase")

    @property
    def is_shared(self) -> bool:
        return self.pods > 1

    def held(self, kind: str, why: str) -> ClaimedVolume:
        """A volume that holds its pods back, or may."""
        reason = f"PersistentVolumeClaim {self.name} {why}"
        if kind == "full":
            return ClaimedVolume(hold=Hold("full", reason))
        return ClaimedVolume(hold=Hold("unclear", reason))

    def at(self, terms: Terms) -> ClaimedVolume:
        """A volume that the nodes of these terms can use; every node if there are none."""
        if not terms:
            return ClaimedVolume()
        return ClaimedVolume(VolumePlace(self.name, terms))


def volumes_of(spec: Field, pods: int) -> Iterator[ClaimedVolume]:
    """How the claims of a pod spec affect its `pods` pods."""
    waiting = 0
    for volume in (spec / "volumes").items():
        claim = _claim_of(spec, volume, pods)
        if isinstance(claim, ClaimedVolume):
            yield claim
        elif claim is not None:
            claimed = _claimed(claim)
            yield claimed
            waiting += _waits_for_local(claim)
    if waiting > 1:
        reason = "which local volumes its claims get together on one node is not checked"
        yield ClaimedVolume(hold=Hold("unclear", reason))


def _claim_of(spec: Field, volume: Field, pods: int) -> _Claim | ClaimedVolume | None:
    """The claim of a volume, or the effect if it is missing; None if it has no claim."""
    ephemeral = volume / "ephemeral" / "volumeClaimTemplate"
    if ephemeral:
        name = (volume / "name").text() or ""
        return _Claim(name, ephemeral, ephemeral, 1)

    where = volume / "persistentVolumeClaim" / "claimName"
    name = where.text() or ""
    if not name:
        return None
    written = _named(spec, name)
    if written is not None:
        return _Claim(name, written, where, pods)
    if spec.surroundings.knows_all(VOLUME_CLAIMS):
        reason = f"PersistentVolumeClaim {name} of namespace {_namespace(spec)} does not exist"
        return ClaimedVolume(hold=Hold("full", f"{reason}: its pods wait for it"))
    reason = f"PersistentVolumeClaim {name} was not read, so it is unknown which nodes can use it"
    return ClaimedVolume(hold=Hold("unclear", reason))


def _namespace(spec: Field) -> str:
    return namespace_of(spec.root)


def _named(spec: Field, name: str) -> Field | None:
    """The claim of this name in the namespace of the document."""
    namespace = _namespace(spec)
    for document in spec.surroundings.each(VOLUME_CLAIMS):
        written = Field(document, surroundings=spec.surroundings)
        if name_of(written) == name and namespace_of(written) == namespace:
            return written
    return None


def _bound_in(root: Field, prefix: str, numbers: range) -> int:
    """How many bound claims in the document's namespace have such a name and index."""
    namespace = namespace_of(root)
    count = 0
    for document in root.surroundings.each(VOLUME_CLAIMS):
        written = Field(document)
        name = name_of(written)
        number = name.removeprefix(prefix)
        if number == name or not number.isdecimal() or namespace_of(written) != namespace:
            continue
        if len(number) <= _MOST_DIGITS and int(number) in numbers and _is_bound(written):
            count += 1
    return count


def claims_of_set(root: Field, pods: int) -> Iterator[ClaimedVolume]:
    """The effect of a StatefulSet's claims: each pod has its own of each template."""
    spec = root / "spec"
    first = (spec / "ordinals" / "start").number(0)
    templates = spec / "volumeClaimTemplates"
    for template in templates.items():
        name = name_of(template)
        prefix = f"{name}-{name_of(root)}-"
        kept = _bound_in(root, prefix, range(first, first + pods))
        if kept:
            reason = (
                f"{kept} of its pods already have a volume of {name}; it is not checked whether "
                "each pod fits on the node of its volume"
            )
            yield ClaimedVolume(hold=Hold("unclear", reason))
        else:
            written = Field(template.value, surroundings=root.surroundings)
            yield _claimed(_Claim(name, written, template, 1))


def _claimed(claim: _Claim) -> ClaimedVolume:
    root = claim.written.root
    if (root / "metadata" / "deletionTimestamp").value is not None:
        return claim.held("full", "is being deleted")
    if _ONE_POD in claim.access_modes and claim.is_shared:
        return claim.held("full", f"is {_ONE_POD}, and {claim.pods} pods use it")
    if _is_bound(claim.written):
        return _bound(claim)
    return _unbound(claim)


def _is_bound(written: Field) -> bool:
    volume = written / "spec" / "volumeName"
    phase = written / "status" / "phase"
    return volume.text() is not None and phase.text() == "Bound"


def _bound(claim: _Claim) -> ClaimedVolume:
    if _ONE_POD in claim.access_modes:
        return claim.held(
            "unclear", f"is {_ONE_POD}, and it is unknown whether another pod uses it"
        )
    if claim.access_modes == [_ONE_NODE] and claim.is_shared:
        message = f"claim {claim.name} is {_ONE_NODE}, and {claim.pods} pods use it"
        fix = "pods on other nodes than the first stay in ContainerCreating; use ReadWriteMany"
        claim.where.warn("pods/volume-access", message, fix)

    name = (claim.spec / "volumeName").text()
    surroundings = claim.written.surroundings
    for document in surroundings.each(VOLUMES):
        volume = Field(document)
        if name_of(volume) == name:
            return claim.at(_terms_of(volume))
    if surroundings.knows_all(VOLUMES):
        return claim.held("full", f"is bound to PersistentVolume {name}, which does not exist")
    return claim.held("unclear", f"is bound to PersistentVolume {name}, which was not read")


def _terms_of(volume: Field) -> Terms:
    """The nodes that can use a volume; empty for all.

    As in kube-scheduler, a node without zone labels can use a volume with them.
    """
    required = volume / "spec" / "nodeAffinity" / "required"
    terms = terms_of(required)
    if terms:
        return terms
    written = volume / "metadata" / "labels"
    labels = written.texts()
    zoned = []
    for key in _ZONES:
        if key in labels:
            zones = tuple(labels[key].split("__"))
            zoned.append(Expression(key, "In", zones))
    if not zoned:
        return ()
    unzoned = [Expression(key, "DoesNotExist") for key in _ZONES]
    return tuple(zoned), tuple(unzoned)


def _unbound(claim: _Claim) -> ClaimedVolume:
    storage_class = class_of(claim.written)
    if not storage_class.is_known:
        name = storage_class.name or "the default one"
        return claim.held("unclear", f"has no volume yet, and StorageClass {name} was not read")
    if not storage_class.waits_for_pod or (claim.spec / "volumeName").text():
        if claim.is_new:
            return claim.held("unclear", "gets its volume first, on unknown nodes")
        return claim.held("full", "has no volume yet, and pods wait until it is bound")

    annotations = claim.written / "metadata" / "annotations"
    node = (annotations / _SELECTED_NODE).text()
    if node:
        is_chosen = Expression(NODE_NAME, "In", (node,), is_field=True)
        return claim.at(((is_chosen,),))
    if storage_class.makes_volumes:
        return _made_on_demand(claim, storage_class)
    return _one_of_local(claim, storage_class)


def _made_on_demand(claim: _Claim, storage_class: StorageClass) -> ClaimedVolume:
    can_be_shared = "ReadWriteMany" in claim.access_modes
    if claim.is_shared and not can_be_shared:
        why = (
            f"gets its volume on the node of the first of {claim.pods} pods, and the others must "
            "follow"
        )
        return claim.held("unclear", why)
    terms = []
    allowed = storage_class.written / "allowedTopologies"
    for term in allowed.items():
        expressions = tuple(_expressions(term))
        terms.append(expressions)
    return claim.at(tuple(terms))


def _expressions(term: Field) -> Iterator[Expression]:
    requirements = term / "matchLabelExpressions"
    for requirement in requirements.items():
        key = requirement / "key"
        values = _texts(requirement / "values")
        yield Expression(key.text() or "", "In", values)


def _one_of_local(claim: _Claim, storage_class: StorageClass) -> ClaimedVolume:
    """The nodes with a volume that can be bound to the claim, if none is provisioned."""
    surroundings = claim.written.surroundings
    if not surroundings.knows_all(VOLUMES):
        return claim.held("unclear", "needs a local volume, and PersistentVolumes were not read")
    candidates = []
    for document in surroundings.each(VOLUMES):
        volume = Field(document)
        if _is_candidate(volume, claim, storage_class):
            candidates.append(_terms_of(volume))
    if not candidates:
        text = f"finds no available volume of StorageClass {storage_class.name}"
        return claim.held("full", text)
    if claim.is_shared and len(set(candidates)) > 1:
        why = f"gets a volume on the node of the first of {claim.pods} pods"
        return claim.held("unclear", why)
    if () in candidates:
        return ClaimedVolume()
    return claim.at(_either(candidates))


def _either(alternatives: Sequence[Terms]) -> Terms:
    together: list[tuple[Expression, ...]] = []
    for terms in alternatives:
        together += terms
    return tuple(together)


def _is_candidate(volume: Field, claim: _Claim, storage_class: StorageClass) -> bool:
    """Whether the volume is free and meets the claim."""
    spec = volume / "spec"
    phase = volume / "status" / "phase"
    is_free = not (spec / "claimRef") and phase.text() in (None, _AVAILABLE)
    name = spec / "storageClassName"
    if not is_free or name.text() != storage_class.name:
        return False
    modes = _texts(spec / "accessModes")
    if not set(modes).issuperset(claim.access_modes):
        return False
    size = _storage(spec / "capacity")
    requested = _storage(claim.spec / "resources" / "requests")
    return size >= requested


def _texts(values: Field) -> tuple[str, ...]:
    texts = []
    for value in values.items():
        text = value.text()
        if text:
            texts.append(text)
    return tuple(texts)


def _storage(amounts: Field) -> int:
    by_resource = written_amounts(amounts.value)
    return by_resource.get("storage", 0)


def _waits_for_local(claim: _Claim) -> bool:
    """Whether it will be bound to an existing volume of its node."""
    if _is_bound(claim.written):
        return False
    storage_class = class_of(claim.written)
    return storage_class.waits_for_pod and not storage_class.makes_volumes
