"""DynamoGraphDeployments of both versions of the API, which call the same things by different names."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.documents import Edits, document

CONSTRAINT = "spec.topologyConstraint"
DOMAIN = "spec.topologyConstraint.packDomain"


@dataclass(frozen=True)
class Version:
    """How one version of the API names what topology constraints stand in."""

    name: str
    topology_name: str
    """The field of the constraint that names the topology."""
    prefill: str
    """The place of the component that is called prefill, of four pods."""
    decode: str
    """The place of the component that is called decode, of two replicas on two nodes each."""

    @property
    def topology(self) -> str:
        """The place where the deployment names its topology."""
        return f"{CONSTRAINT}.{self.topology_name}"

    @property
    def decode_constraint(self) -> str:
        """The place of the constraint of the component decode."""
        return f"{self.decode}.topologyConstraint"

    @property
    def decode_domain(self) -> str:
        """The place of the domain of the component decode."""
        return f"{self.decode}.topologyConstraint.packDomain"

    def deployment(
        self,
        *,
        topology: str | None = "cluster",
        domain: str | None = "zone",
        decode: str | None = "rack",
        edits: Edits | None = None,
    ) -> Any:
        """A deployment that is kept together in one `domain`, and each replica of decode in another one."""
        constraint = {self.topology_name: topology, "packDomain": domain}
        places: dict[str, Any] = {
            CONSTRAINT: {name: value for name, value in constraint.items() if value is not None},
            self.decode_constraint: None if decode is None else {"packDomain": decode},
        }
        return document(f"dynamo/{self.name}", {**places, **(edits or {})})


V1ALPHA1 = Version("v1alpha1", "topologyProfile", prefill="spec.services.prefill", decode="spec.services.decode")
V1BETA1 = Version("v1beta1", "clusterTopologyName", prefill="spec.components[1]", decode="spec.components[2]")
BOTH_VERSIONS = pytest.mark.parametrize("version", [V1ALPHA1, V1BETA1], ids=["v1alpha1", "v1beta1"])
