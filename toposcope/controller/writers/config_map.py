"""The ConfigMaps that the controller keeps in its own namespace."""

from collections.abc import Mapping

from toposcope.api.cluster_topology import MANAGED_BY, TOPOSCOPE
from toposcope.integrations.framework.published import MANAGER
from toposcope.kube.client import Request
from toposcope.kube.requests import apply


def config_map_path(namespace: str, name: str) -> str:
    """Where the API server has it."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def apply_config_map(namespace: str, name: str, data: Mapping[str, str]) -> Request:
    """Make these its entries, whoever else has written them."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {MANAGED_BY: TOPOSCOPE},
        },
        "data": dict(data),
    }
    path = config_map_path(namespace, name)
    return apply(path, body, MANAGER, force=True)
