"""What the token of `toposcope switches` may do on a real API server, and what it may not."""

import random
from pathlib import Path

import pytest

from tests.manifests.rights import (
    OTHER,
    OWN,
    apply_node,
    attempts,
    granted,
    grants,
    kubeconfig_with,
    make_node,
    surprises,
    unbound_token,
    untouched,
    wait_for,
)
from tests.manifests.support import NAMESPACE, built, run_kubectl, write_overlay
from tests.support.api import ApiUnderTest, pod_token
from toposcope.api.label_keys import SWITCHES
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.confinement import Confinement
from toposcope.switches.publish import Publisher
from toposcope.topology.neighbours import LIMIT

pytestmark = pytest.mark.real_api("RBAC, TokenRequest and admission policies")


def test_it_writes_one_annotation_of_its_own_node_and_proves_it(
    installed: ApiUnderTest, kubectl: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    api, overlay = installed, write_overlay(tmp_path.resolve() / "overlay", ["switches"])
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", overlay)
    for path in (OWN, OTHER):
        make_node(api, path)
    pod = built(kubectl, overlay).pod("switches", "a-switches", nodeName="confined-own")
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", pod))
    wait_for(api, attempts("switches", "in force"), token)
    before = untouched(api)
    assert surprises(api, attempts("switches", "may"), token) == {}
    sizes = [apply_node("much", OWN, annotations={SWITCHES: "x" * LIMIT})]
    sizes.append(
        apply_node("more", OWN, "may have at most 16384 characters", annotations={SWITCHES: "x" * (LIMIT + 1)})
    )
    refused = (*attempts("switches", "may not"), *attempts("anyone", "may not", "toposcope-switches"))
    assert surprises(api, (*sizes, *refused), token) == {}
    unbound = [apply_node("annotate", OWN, "carries no node claim", annotations={SWITCHES: "{}"})]
    assert surprises(api, unbound, unbound_token(api, "toposcope-switches")) == {}
    expected = grants("switches")
    assert {kind: granted(api, token, *kind) for kind in expected} == expected
    client = ApiClient(load(str(kubeconfig_with(api, token, tmp_path))))
    request.addfinalizer(client.close)
    publisher = Publisher(client, "confined-own")
    confinement = Confinement(client, publisher.foreign_writes, lambda: 0.0, random.Random(1))
    confinement.check()
    assert confinement.confined
    assert publisher.publish('{"mlx5_0":null}')
    assert untouched(api) == before
    assert api.get(OWN)["metadata"]["annotations"][SWITCHES] == '{"mlx5_0":null}'
