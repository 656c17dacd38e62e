"""Schedulers' kinds, as far as a publisher needs them: what the API server serves, and one object of somebody else."""

from typing import Any

from tests.support.api import CRDS, ApiUnderTest
from toposcope.api.label_keys import HOSTNAME

PUBLISHED = {
    "/apis/grove.io/v1alpha1/clustertopologybindings": "ClusterTopologyBinding",
    "/apis/grove.io/v1alpha1/clustertopologies": "ClusterTopology",
    "/apis/kai.scheduler/v1alpha1/topologies": "Topology",
    "/apis/kueue.x-k8s.io/v1beta2/topologies": "Topology",
}
"""Collections of what the controller publishes or takes back, with their kinds."""


def crd(path: str, kind: str) -> dict[str, Any]:
    """A CRD that takes any spec, for the kind that is served at a path."""
    group, version, plural = path.removeprefix("/apis/").split("/")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def serve_all(api: ApiUnderTest) -> None:
    """Have the API server serve all that is published, and the flavors that may hold one of them."""
    flavors = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
    crds = [crd(path, kind) for path, kind in (PUBLISHED | {flavors: "ResourceFlavor"}).items()]
    for each in crds:
        api.create(CRDS, each)
    for each in crds:  # a real server settles them side by side
        api.settled_crd(each["metadata"]["name"])


def published(path: str, name: str, **metadata: Any) -> dict[str, Any]:
    """An object of one of the kinds; without labels and owners it is somebody else's."""
    spec = {"levels": [{"nodeLabel": HOSTNAME}]}
    api_version = path.removeprefix("/apis/").rpartition("/")[0]
    metadata = {"name": name, **metadata}
    return {"apiVersion": api_version, "kind": PUBLISHED[path], "metadata": metadata, "spec": spec}
