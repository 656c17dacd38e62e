"""What a real API server takes and refuses as a ClusterTopology, and what it says."""

from typing import Any

import pytest

from tests.manifests.support import TOPOLOGIES
from tests.support.api import ApiUnderTest

SIXTEEN = tuple((f"l{i}", f"example.com/l{i}") for i in range(16))
HOST = ("host", "kubernetes.io/hostname")
RACK = ("rack", "example.com/rack")


def levels(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"levels": [{"domain": domain, "key": key} for domain, key in pairs]}


def expressions(*items: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelector": {"matchExpressions": list(items)}}


TAKEN: dict[str, dict[str, Any]] = {
    "empty": {},
    "usual": levels(("zone", "topology.kubernetes.io/zone"), RACK, HOST),
    "as many levels as KAI takes": levels(*SIXTEEN),
    "one-letter domain": levels(("a", "example.com/a")),
    "longest domain and key": levels(("a" * 63, "example.com/" + "k" * 51)),
    "key without prefix": levels(("rack", "rack")),
    "key with every legal character": levels(("rack", "a-1.example.com/My_rack-0.b")),
    "host anywhere if its key is not the hostname": levels(("host", "example.com/host"), RACK),
    "required of inferred levels": {"required": ["rack"]},
    "required of given levels": {**levels(RACK, HOST), "required": ["host", "rack"]},
    "compound grace period": {"gracePeriod": "1h30m"},
    "fractional grace period": {"gracePeriod": "1.5h"},
    "no grace period": {"gracePeriod": "0s"},
    "longest grace period": {"gracePeriod": "168h"},
    "retained": {"removalPolicy": "Retain"},
    "published nowhere yet": {"publish": {"grove": "DryRun", "kai": "DryRun", "kueue": "DryRun"}},
    "published nowhere": {"publish": {"grove": "Never", "kai": "Never", "kueue": "Never"}},
    "segments of their own": {"segments": "Auto"},
    "segments not wanted beside levels": {**levels(RACK), "segments": "Off"},
    "selected by labels": {"nodeSelector": {"matchLabels": {"example.com/pool": "h100", "flag": ""}}},
    "selected by expressions": expressions(
        {"key": "pool", "operator": "In", "values": ["a", "b"]}, {"key": "example.com/old", "operator": "DoesNotExist"}
    ),
}

# name: (spec, field, part of the message)
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no levels": (levels(), "spec.levels", "at least 1 items"),
    "too many levels": (levels(*SIXTEEN, HOST), "spec.levels", "must have at most 16 items"),
    "domain twice": (levels(RACK, ("rack", "example.com/r2")), "spec.levels", "a domain appears twice"),
    "key twice": (levels(RACK, ("row", RACK[1])), "spec.levels", "a key appears twice"),
    "hostname not last": (levels(HOST, RACK), "spec.levels", "make it the last one"),
    "upper case": (levels(("Rack", "a/b")), "spec.levels[0].domain", "use lower-case letters, digits and '-'"),
    "underscore": (levels(("rack_a", "a/b")), "spec.levels[0].domain", "use lower-case letters, digits and '-'"),
    "dot": (levels(("rack.a", "a/b")), "spec.levels[0].domain", "use lower-case letters, digits and '-'"),
    "hyphen at the end": (levels(("rack-", "a/b")), "spec.levels[0].domain", "ending with a letter or digit"),
    "digit at the start": (levels(("1rack", "a/b")), "spec.levels[0].domain", "starting with a letter"),
    "line end after a domain": (levels(("rack\n", "a/b")), "spec.levels[0].domain", "not a domain"),
    "domain too long": (levels(("a" * 64, "a/b")), "spec.levels[0].domain", "may not be more than 63 bytes"),
    "NUMA level": (levels(RACK, ("numa", "a/b")), "spec.levels[1].domain", "lies inside a node"),
    "GPU level": (levels(("gpu", "a/b")), "spec.levels[0].domain", "end with 'host'"),
    "key with upper-case prefix": (levels(("a", "Example.com/A")), "spec.levels[0].key", "lower-case DNS prefix"),
    "key with underscore in prefix": (levels(("a", "my_co/rack")), "spec.levels[0].key", "lower-case DNS prefix"),
    "key with empty prefix part": (levels(("a", "a..b/rack")), "spec.levels[0].key", "lower-case DNS prefix"),
    "key with two slashes": (levels(("a", "a/b/c")), "spec.levels[0].key", "not a label key"),
    "key without name": (levels(("a", "example.com/")), "spec.levels[0].key", "not a label key"),
    "key too long for Grove": (levels(("a", "a/" + "k" * 62)), "spec.levels[0].key", "may not be more than 63 bytes"),
    "level without key": ({"levels": [{"domain": "a"}]}, "spec.levels[0].key", "Required value"),
    "required beside levels": (
        {**levels(RACK), "required": ["rack", "block"]},
        "spec.required",
        "'block' is not in spec.levels; add it there, or remove it here",
    ),
    "required twice": ({"required": ["rack", "rack"]}, "spec.required[1]", "Duplicate value"),
    "required inside the node": ({"required": ["numa"]}, "spec.required[0]", "lies inside a node"),
    "required no domain": ({"required": ["Rack"]}, "spec.required[0]", "not a domain"),
    "grace period without unit": ({"gracePeriod": "10"}, "spec.gracePeriod", "as in '10m' or '1h30m'"),
    "grace period in days": ({"gracePeriod": "1d"}, "spec.gracePeriod", "units h, m, s or ms"),
    "grace period negative": ({"gracePeriod": "-10m"}, "spec.gracePeriod", "not a duration"),
    "grace period number": ({"gracePeriod": 600}, "spec.gracePeriod", "must be of type string"),
    "grace period too long": ({"gracePeriod": "168h1s"}, "spec.gracePeriod", "set removalPolicy to Retain"),
    "grace period beyond reason": ({"gracePeriod": "999999h999999h9h"}, "spec.gracePeriod", "longer than 168h"),
    "segments of given levels": ({**levels(RACK), "segments": "Auto"}, "spec.segments", "remove spec.levels"),
    "segments": ({"segments": "On"}, "spec.segments", 'supported values: "Auto", "Off"'),
    "PCIe level": (levels(("pcie", "a/b")), "spec.levels[0].domain", "lies inside a node"),
    "removal policy": ({"removalPolicy": "Delete"}, "spec.removalPolicy", 'supported values: "Remove", "Retain"'),
    "publish": ({"publish": {"kai": "Always"}}, "spec.publish.kai", 'supported values: "Auto", "Never", "DryRun"'),
    "selector empty": ({"nodeSelector": {}}, "spec.nodeSelector", "leave nodeSelector out"),
    "selector empty inside": ({"nodeSelector": {"matchLabels": {}}}, "spec.nodeSelector", "leave nodeSelector out"),
    "selector label": ({"nodeSelector": {"matchLabels": {"a b": "c"}}}, "spec.nodeSelector.matchLabels", "label key"),
    "selector label with a long name": (
        {"nodeSelector": {"matchLabels": {"a/" + "k" * 64: "c"}}},
        "spec.nodeSelector.matchLabels",
        "label key",
    ),
    "selector value": (
        {"nodeSelector": {"matchLabels": {"a": "-c"}}},
        "spec.nodeSelector.matchLabels[a]",
        "label value",
    ),
    "selector key": (
        expressions({"key": "a/", "operator": "Exists"}),
        "spec.nodeSelector.matchExpressions[0].key",
        "not a label key",
    ),
    "selector operator": (
        expressions({"key": "a", "operator": "Gt", "values": ["1"]}),
        "spec.nodeSelector.matchExpressions[0].operator",
        "Unsupported value",
    ),
    "selector without values": (
        expressions({"key": "a", "operator": "In"}),
        "spec.nodeSelector.matchExpressions[0].values",
        "operator In needs values",
    ),
    "selector with values": (
        expressions({"key": "a", "operator": "Exists", "values": ["b"]}),
        "spec.nodeSelector.matchExpressions[0].values",
        "operator Exists takes no values",
    ),
}


def create(api: ApiUnderTest, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    body = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "rules"},
        "spec": spec,
    }
    return api.request("POST", f"{TOPOLOGIES}?dryRun=All&fieldValidation=Strict", body)


@pytest.mark.real_api("CEL rules of a CRD")
def test_what_every_scheduler_takes_is_taken(served: ApiUnderTest) -> None:
    answers = {name: create(served, spec) for name, spec in TAKEN.items()}
    assert {name: body["message"] for name, (status, body) in answers.items() if status != 201} == {}


@pytest.mark.real_api("CEL rules of a CRD")
def test_what_some_scheduler_refuses_is_refused_with_field_and_fix(served: ApiUnderTest) -> None:
    surprises = {}
    for name, (spec, field, message) in REFUSED.items():
        status, body = create(served, spec)
        causes = body.get("details", {}).get("causes", ()) if status == 422 else ()
        if not any(cause["field"] == field and message in cause["message"] for cause in causes):
            surprises[name] = (status, body.get("message"))
    assert surprises == {}


def test_an_empty_spec_is_filled_in(served: ApiUnderTest) -> None:
    status, body = create(served, {})
    assert status == 201
    assert body["spec"] == {
        "gracePeriod": "10m",
        "removalPolicy": "Remove",
        "segments": "Off",
        "publish": {"grove": "Auto", "kai": "Auto", "kueue": "Auto"},
    }


@pytest.mark.real_api("strict field validation")
def test_a_field_that_does_not_exist_is_named(served: ApiUnderTest) -> None:
    status, body = create(served, {"publish": {"volcano": "Auto"}})
    assert (status, body["message"].rpartition(": ")[2]) == (400, 'unknown field "spec.publish.volcano"')
