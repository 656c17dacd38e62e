"""What a real API server takes and refuses as a ClusterTopology, and what it says."""

from typing import Any

import pytest

from tests.manifests.support import TOPOLOGIES
from tests.support.api import ApiUnderTest

SIXTEEN = tuple((f"l{i}", f"example.com/l{i}") for i in range(16))
DOMAIN, KEY = "spec.levels[0].domain", "spec.levels[0].key"
NOT_A_LEVEL = "'block' is not in spec.levels; add it there, or remove it here"
SELECTOR = "spec.nodeSelector"
EXPRESSION = f"{SELECTOR}.matchExpressions[0]"
HOST = ("host", "kubernetes.io/hostname")
RACK = ("rack", "example.com/rack")


def levels(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"levels": [{"domain": domain, "key": key} for domain, key in pairs]}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def selecting(*expressions: dict[str, Any], **match_labels: str) -> dict[str, Any]:
    return {"nodeSelector": {"matchExpressions": list(expressions)} if expressions else {"matchLabels": match_labels}}


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
    "selected by labels": selecting(**{"example.com/pool": "h100", "flag": ""}),
    "selected by expressions": selecting(
        expression("pool", "In", "a", "b"), expression("example.com/old", "DoesNotExist")
    ),
}

# name: (spec, field, part of the message)
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no levels": (levels(), "spec.levels", "at least 1 items"),
    "too many levels": (levels(*SIXTEEN, HOST), "spec.levels", "must have at most 16 items"),
    "domain twice": (levels(RACK, ("rack", "example.com/r2")), "spec.levels", "a domain appears twice"),
    "key twice": (levels(RACK, ("row", RACK[1])), "spec.levels", "a key appears twice"),
    "hostname not last": (levels(HOST, RACK), "spec.levels", "make it the last one"),
    "upper case": (levels(("Rack", "a/b")), DOMAIN, "use lower-case letters, digits and '-'"),
    "underscore": (levels(("rack_a", "a/b")), DOMAIN, "use lower-case letters, digits and '-'"),
    "dot": (levels(("rack.a", "a/b")), DOMAIN, "use lower-case letters, digits and '-'"),
    "hyphen at the end": (levels(("rack-", "a/b")), DOMAIN, "ending with a letter or digit"),
    "digit at the start": (levels(("1rack", "a/b")), DOMAIN, "starting with a letter"),
    "line end after a domain": (levels(("rack\n", "a/b")), DOMAIN, "not a domain"),
    "domain too long": (levels(("a" * 64, "a/b")), DOMAIN, "may not be more than 63 bytes"),
    "NUMA level": (levels(RACK, ("numa", "a/b")), "spec.levels[1].domain", "lies inside a node"),
    "GPU level": (levels(("gpu", "a/b")), DOMAIN, "end with 'host'"),
    "key with upper-case prefix": (levels(("a", "Example.com/A")), KEY, "lower-case DNS prefix"),
    "key with underscore in prefix": (levels(("a", "my_co/rack")), KEY, "lower-case DNS prefix"),
    "key with empty prefix part": (levels(("a", "a..b/rack")), KEY, "lower-case DNS prefix"),
    "key with two slashes": (levels(("a", "a/b/c")), KEY, "not a label key"),
    "key without name": (levels(("a", "example.com/")), KEY, "not a label key"),
    "key too long for Grove": (levels(("a", "a/" + "k" * 62)), KEY, "may not be more than 63 bytes"),
    "level without key": ({"levels": [{"domain": "a"}]}, KEY, "Required value"),
    "required beside levels": ({**levels(RACK), "required": ["rack", "block"]}, "spec.required", NOT_A_LEVEL),
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
    "PCIe level": (levels(("pcie", "a/b")), DOMAIN, "lies inside a node"),
    "removal policy": ({"removalPolicy": "Delete"}, "spec.removalPolicy", 'supported values: "Remove", "Retain"'),
    "publish": ({"publish": {"kai": "Always"}}, "spec.publish.kai", 'supported values: "Auto", "Never", "DryRun"'),
    "selector empty": ({"nodeSelector": {}}, SELECTOR, "leave nodeSelector out"),
    "selector empty inside": (selecting(), SELECTOR, "leave nodeSelector out"),
    "selector label": (selecting(**{"a b": "c"}), f"{SELECTOR}.matchLabels", "label key"),
    "selector label with a long name": (selecting(**{"a/" + "k" * 64: "c"}), f"{SELECTOR}.matchLabels", "label key"),
    "selector value": (selecting(a="-c"), f"{SELECTOR}.matchLabels[a]", "label value"),
    "selector key": (selecting(expression("a/", "Exists")), f"{EXPRESSION}.key", "not a label key"),
    "selector operator": (selecting(expression("a", "Gt", "1")), f"{EXPRESSION}.operator", "Unsupported value"),
    "selector without values": (selecting(expression("a", "In")), f"{EXPRESSION}.values", "operator In needs values"),
    "selector with values": (
        selecting(expression("a", "Exists", "b")),
        f"{EXPRESSION}.values",
        "operator Exists takes no values",
    ),
}


def create(api: ApiUnderTest, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    kind = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology"}
    body = {**kind, "metadata": {"name": "rules"}, "spec": spec}
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
