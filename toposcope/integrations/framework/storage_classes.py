"""StorageClasses: whether volumes are created or bound where a pod goes, and who creates them."""

from dataclasses import dataclass
from typing import Final

from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.pod_kinds import STORAGE_CLASSES

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_WAITS_FOR_POD: Final = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """The StorageClass of a claim."""

    name: str
    written: Field
    """Empty if there is no class of this name."""
    is_known: bool = True

    @property
    def waits_for_pod(self) -> bool:
        """Whether a volume is created or bound only once its pod has a node."""
        mode = self.written / "volumeBindingMode"
        return mode.text() == _WAITS_FOR_POD

    @property
    def makes_volumes(self) -> bool:
        """Whether volumes are provisioned on demand."""
        provisioner = (self.written / "provisioner").text()
        return provisioner not in (None, _NO_PROVISIONER)


def class_of(claim: Field) -> StorageClass:
    """The class of a PersistentVolumeClaim: the one that it names, or the default one."""
    name = (claim / "spec" / "storageClassName").value
    surroundings = claim.surroundings
    for document in surroundings.each(STORAGE_CLASSES):
        written = Field(document)
        own_name = name_of(written)
        is_meant = own_name == name
        if name is None:
            is_meant = _is_default(written)
        if is_meant:
            return StorageClass(own_name, written)

    is_known = name == "" or surroundings.knows_all(STORAGE_CLASSES)
    return StorageClass(str(name or ""), Field(None), is_known)


def _is_default(storage_class: Field) -> bool:
    annotations = storage_class / "metadata" / "annotations"
    mark = annotations / _DEFAULT_CLASS
    return mark.text() == "true"
