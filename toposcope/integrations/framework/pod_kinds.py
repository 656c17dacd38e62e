"""Kinds of objects by which the API server and nodes change, reject or hold back pods."""

from typing import Final

from toposcope.kube.discovery import Kind

LIMIT_RANGES: Final = Kind("", "LimitRange", "limitranges", ("v1",))
QUOTAS: Final = Kind("", "ResourceQuota", "resourcequotas", ("v1",))
RUNTIME_CLASSES: Final = Kind(
    "node.k8s.io", "RuntimeClass", "runtimeclasses", ("v1",), is_namespaced=False
)
PRIORITY_CLASSES: Final = Kind(
    "scheduling.k8s.io", "PriorityClass", "priorityclasses", ("v1",), is_namespaced=False
)
VOLUME_CLAIMS: Final = Kind("", "PersistentVolumeClaim", "persistentvolumeclaims", ("v1",))
VOLUMES: Final = Kind("", "PersistentVolume", "persistentvolumes", ("v1",), is_namespaced=False)
STORAGE_CLASSES: Final = Kind(
    "storage.k8s.io", "StorageClass", "storageclasses", ("v1",), is_namespaced=False
)
POD_KINDS: Final = (
    LIMIT_RANGES,
    QUOTAS,
    RUNTIME_CLASSES,
    PRIORITY_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
)
