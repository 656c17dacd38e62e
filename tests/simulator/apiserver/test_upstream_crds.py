"""The CRDs of other projects, as they publish them: accepted, served, and in each other's way where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.api import CRDS, ApiUnderTest, crd_conditions, wait_until

FOLDER = Path(__file__).parents[4] / "shared" / "crds"
FILES = sorted(FOLDER.glob("*.yaml"))
# A second of parsing and compiling on both servers; its schema is like the others'.
LARGE = "grove-podcliquesets-alpha12"

pytestmark = pytest.mark.skipif(not FILES, reason=f"no CRDs of other projects in {FOLDER}")


def load(name: str) -> dict[str, Any]:
    crd: dict[str, Any] = yaml.load((FOLDER / f"{name}.yaml").read_bytes(), yaml.CSafeLoader)
    return crd


@pytest.mark.parametrize("name", [file.stem for file in FILES if file.stem != LARGE])
def test_is_accepted_and_served(api: ApiUnderTest, name: str) -> None:
    crd = api.install_crd(load(name))
    # Groups under k8s.io have a condition more on a real server.
    assert crd_conditions(crd).items() >= {"NamesAccepted": "True", "Established": "True"}.items()


def test_the_largest_one_can_be_applied(api: ApiUnderTest) -> None:
    crd = load(LARGE)
    code, answer = api.apply(f"{CRDS}/{crd['metadata']['name']}", crd)
    assert code == 201, answer
    assert crd_conditions(api.settled_crd(crd["metadata"]["name"]))["Established"] == "True"


def test_both_grove_topologies_want_the_same_short_name(api: ApiUnderTest) -> None:
    api.install_crd(load("grove-clustertopologies-alpha4"))
    crd = api.install_crd(load("grove-clustertopologybindings-alpha10"))
    names = next(c for c in crd["status"]["conditions"] if c["type"] == "NamesAccepted")
    assert (names["status"], names["reason"], names["message"]) == (
        "False",
        "ShortNamesConflict",
        '"ct" is already in use',
    )
    bindings = "/apis/grove.io/v1alpha1/clustertopologybindings"
    assert api.request("GET", bindings)[0] == 404
    api.remove_crd("clustertopologies.grove.io")
    wait_until(lambda: api.request("GET", bindings)[0] == 200, "bindings are served once the short name is free")


def test_field_of_an_older_version_cannot_be_applied(api: ApiUnderTest) -> None:
    api.install_crd(load("grove-clustertopologybindings-alpha10"))
    binding = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "b"},
        "spec": {"levels": [{"domain": "rack", "key": "example.com/rack"}], "schedulerTopologyReferences": []},
    }
    path = "/apis/grove.io/v1alpha1/clustertopologybindings"
    code, answer = api.apply(f"{path}/b", binding)
    assert code == 500
    assert ".spec.schedulerTopologyReferences: field not declared in schema" in answer["message"]
    answered = api.ask("POST", path, binding)
    assert answered.code == 201
    assert answered.headers["Warning"] == '299 - "unknown field \\"spec.schedulerTopologyReferences\\""'
    assert "schedulerTopologyReferences" not in answered.body["spec"]


def test_grove_checks_domain_names(api: ApiUnderTest) -> None:
    api.install_crd(load("grove-clustertopologybindings-alpha10"))

    def create(index: int, domain: str) -> int:
        body = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "metadata": {"name": f"b{index}"},
            "spec": {"levels": [{"domain": domain, "key": "example.com/rack"}]},
        }
        return api.request("POST", "/apis/grove.io/v1alpha1/clustertopologybindings", body)[0]

    expected = {"rack": 201, "rack-": 201, "1rack": 422, "Rack": 422, "r" * 64: 422, "": 422}
    assert {domain: create(index, domain) for index, domain in enumerate(expected)} == expected


@pytest.mark.real_api("immutability is a CEL rule")
def test_kai_levels_are_immutable(api: ApiUnderTest) -> None:
    api.install_crd(load("kai-topologies-v0.17"))
    path = "/apis/kai.scheduler/v1alpha1/topologies"
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "example.com/rack"}]},
    }
    api.create(path, topology)
    topology["spec"] = {"levels": [{"nodeLabel": "example.com/block"}]}
    code, answer = api.apply(f"{path}/t", topology, force=True)
    assert code == 422
    assert "immutable" in answer["message"]
