"""Specs of a ClusterTopology that a real API server takes by the CRD's rules, and specs that it refuses."""

from typing import Any

import pytest
from tests.manifests.support import create_topology
from tests.support.api import ApiUnderTest

Spec = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
UNIQUE_RACK = "gpu.topology/unique-rack"

pytestmark = pytest.mark.real_api("CEL rules of a CRD")


def levels(**keys: str) -> Spec:
    """A spec with these levels, broadest first: label keys by domain."""
    entries = []
    for domain, key in keys.items():
        entries.append({"domain": domain, "key": key})
    return {"levels": entries}


def numbered_levels(count: int) -> Spec:
    """A spec with this many levels."""
    keys = {}
    for number in range(count):
        keys[f"l{number}"] = f"example.com/l{number}"
    return levels(**keys)


def label_selector(key: str, value: str) -> Spec:
    """A spec that selects nodes by one label."""
    return {"nodeSelector": {"matchLabels": {key: value}}}


def expression_selector(*expressions: Spec) -> Spec:
    """A spec that selects nodes by expressions."""
    return {"nodeSelector": {"matchExpressions": list(expressions)}}


def assert_taken(api: ApiUnderTest, spec: Spec) -> None:
    """The API server would create a ClusterTopology with this spec."""
    status, answer = create_topology(api, spec)
    assert status == 201, answer["message"]


def assert_refused(api: ApiUnderTest, spec: Spec, field: str, message: str) -> None:
    """The API server refuses the spec because of this field, in a message that says this."""
    status, answer = create_topology(api, spec)
    said = answer.get("message", "none")
    assert status == 422, f"expected a refusal because of {field}, got {said}"
    causes = answer["details"]["causes"]
    of_field = ""
    for cause in causes:
        if cause["field"] == field:
            of_field += cause["message"] + "\n"
    assert message in of_field, f"no '{message}' about {field}: {causes}"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            levels(zone="topology.kubernetes.io/zone", rack="example.com/rack", host=HOSTNAME), id="zone-rack-host"
        ),
        pytest.param(numbered_levels(16), id="as-many-as-kai-takes"),
        pytest.param(levels(a="example.com/a"), id="one-letter-domain"),
        pytest.param(levels(**{"a" * 63: "example.com/" + "k" * 51}), id="longest-domain-and-key"),
        pytest.param(levels(rack="rack"), id="key-without-prefix"),
        pytest.param(levels(rack="a-1.example.com/My_rack-0.b"), id="key-with-every-legal-character"),
        pytest.param(levels(host="example.com/host", rack="example.com/rack"), id="host-first-by-another-key"),
    ],
)
def test_levels_that_every_scheduler_takes_are_taken(served_once: ApiUnderTest, spec: Spec) -> None:
    assert_taken(served_once, spec)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="empty"),
        pytest.param({"required": ["rack"]}, id="required-of-inferred-levels"),
        pytest.param(
            levels(rack="example.com/rack", host=HOSTNAME) | {"required": ["host", "rack"]},
            id="required-of-given-levels",
        ),
        pytest.param({"gracePeriod": "1h30m"}, id="compound-grace-period"),
        pytest.param({"gracePeriod": "1.5h"}, id="fractional-grace-period"),
        pytest.param({"gracePeriod": "0s"}, id="no-grace-period"),
        pytest.param({"gracePeriod": "168h"}, id="longest-grace-period"),
        pytest.param({"minCoveragePercent": 100}, id="coverage-of-every-node"),
        pytest.param({"minCoveragePercent": 1}, id="least-coverage"),
        pytest.param({"removalPolicy": "Retain"}, id="retained"),
        pytest.param({"publish": {"grove": "DryRun", "kai": "DryRun", "kueue": "DryRun"}}, id="published-dry"),
        pytest.param({"publish": {"grove": "Never", "kai": "Never", "kueue": "Never"}}, id="published-never"),
        pytest.param({"segments": "Auto"}, id="segments"),
        pytest.param(levels(rack="example.com/rack") | {"segments": "Off"}, id="no-segments-beside-levels"),
        pytest.param(
            {"nodeSelector": {"matchLabels": {"example.com/pool": "h100", "flag": ""}}}, id="selected-by-labels"
        ),
        pytest.param(
            expression_selector(
                {"key": "pool", "operator": "In", "values": ["a", "b"]},
                {"key": "example.com/old", "operator": "DoesNotExist"},
            ),
            id="selected-by-expressions",
        ),
        pytest.param(label_selector(UNIQUE_RACK, "z.r1"), id="selected-by-unique-values-of-another-topology"),
    ],
)
def test_other_fields_that_make_sense_are_taken(served_once: ApiUnderTest, spec: Spec) -> None:
    assert_taken(served_once, spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"levels": []}, "at least 1 items", id="none"),
        pytest.param(
            {"levels": [*numbered_levels(16)["levels"], {"domain": "host", "key": HOSTNAME}]},
            "must have at most 16 items",
            id="too-many",
        ),
        pytest.param(
            {"levels": [{"domain": "rack", "key": "example.com/rack"}, {"domain": "rack", "key": "example.com/r2"}]},
            "a domain appears twice",
            id="domain-twice",
        ),
        pytest.param(levels(rack="example.com/rack", row="example.com/rack"), "a key appears twice", id="key-twice"),
        pytest.param(levels(host=HOSTNAME, rack="example.com/rack"), "make it the last one", id="hostname-not-last"),
    ],
)
def test_levels_that_do_not_fit_together_are_refused(served_once: ApiUnderTest, spec: Spec, message: str) -> None:
    assert_refused(served_once, spec, "spec.levels", message)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        pytest.param("Rack", "use lower-case letters, digits and '-'", id="upper-case"),
        pytest.param("rack_a", "use lower-case letters, digits and '-'", id="underscore"),
        pytest.param("rack.a", "use lower-case letters, digits and '-'", id="dot"),
        pytest.param("rack-", "ending with a letter or digit", id="hyphen-at-the-end"),
        pytest.param("1rack", "starting with a letter", id="digit-at-the-start"),
        pytest.param("rack\n", "not a domain", id="line-end"),
        pytest.param("a" * 64, "may not be more than 63 bytes", id="too-long"),
        pytest.param("gpu", "end with 'host'", id="gpu"),
        pytest.param("pcie", "lies inside a node", id="pcie"),
    ],
)
def test_domain_that_some_scheduler_refuses_is_refused(served_once: ApiUnderTest, domain: str, message: str) -> None:
    spec = levels(**{domain: "a/b"})
    assert_refused(served_once, spec, "spec.levels[0].domain", message)


def test_domain_inside_a_node_is_refused_at_any_place(served_once: ApiUnderTest) -> None:
    spec = levels(rack="example.com/rack", numa="a/b")
    assert_refused(served_once, spec, "spec.levels[1].domain", "lies inside a node")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        pytest.param("Example.com/A", "lower-case DNS prefix", id="upper-case-prefix"),
        pytest.param("my_co/rack", "lower-case DNS prefix", id="underscore-in-prefix"),
        pytest.param("a..b/rack", "lower-case DNS prefix", id="empty-prefix-part"),
        pytest.param("a/b/c", "not a label key", id="two-slashes"),
        pytest.param("example.com/", "not a label key", id="no-name"),
        pytest.param("a/" + "k" * 62, "may not be more than 63 bytes", id="too-long-for-grove"),
        # What agents write because of a ClusterTopology must not decide what they write.
        pytest.param(UNIQUE_RACK, "is derived from the levels", id="unique-values"),
    ],
)
def test_key_that_some_scheduler_refuses_is_refused(served_once: ApiUnderTest, key: str, message: str) -> None:
    assert_refused(served_once, levels(a=key), "spec.levels[0].key", message)


def test_level_without_key_is_refused(served_once: ApiUnderTest) -> None:
    spec = {"levels": [{"domain": "a"}]}
    assert_refused(served_once, spec, "spec.levels[0].key", "Required value")


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param(
            levels(rack="example.com/rack") | {"required": ["rack", "block"]},
            "spec.required",
            "'block' is not in spec.levels; add it there, or remove it here",
            id="beside-levels",
        ),
        pytest.param({"required": ["rack", "rack"]}, "spec.required[1]", "Duplicate value", id="twice"),
        pytest.param({"required": ["numa"]}, "spec.required[0]", "lies inside a node", id="inside-a-node"),
        pytest.param({"required": ["Rack"]}, "spec.required[0]", "not a domain", id="no-domain"),
    ],
)
def test_required_level_that_cannot_be_is_refused(
    served_once: ApiUnderTest, spec: Spec, field: str, message: str
) -> None:
    assert_refused(served_once, spec, field, message)


@pytest.mark.parametrize(
    ("percent", "message"),
    [
        pytest.param(0, "should be greater than or equal to 1", id="nothing"),
        pytest.param(101, "should be less than or equal to 100", id="more-than-all"),
        pytest.param("95%", "must be of type integer", id="text"),
    ],
)
def test_coverage_out_of_range_is_refused(served_once: ApiUnderTest, percent: int | str, message: str) -> None:
    spec = {"minCoveragePercent": percent}
    assert_refused(served_once, spec, "spec.minCoveragePercent", message)


@pytest.mark.parametrize(
    ("period", "message"),
    [
        pytest.param("10", "as in '10m' or '1h30m'", id="without-unit"),
        pytest.param("1d", "units h, m, s or ms", id="days"),
        pytest.param("-10m", "not a duration", id="negative"),
        pytest.param(600, "must be of type string", id="number"),
        pytest.param("168h1s", "set removalPolicy to Retain", id="too-long"),
        pytest.param("999999h999999h9h", "longer than 168h", id="beyond-reason"),
    ],
)
def test_grace_period_that_is_no_duration_is_refused(
    served_once: ApiUnderTest, period: str | int, message: str
) -> None:
    spec = {"gracePeriod": period}
    assert_refused(served_once, spec, "spec.gracePeriod", message)


def test_segments_of_given_levels_are_refused(served_once: ApiUnderTest) -> None:
    spec = levels(rack="example.com/rack") | {"segments": "Auto"}
    assert_refused(served_once, spec, "spec.segments", "remove spec.levels")


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"segments": "On"}, "spec.segments", 'supported values: "Auto", "Off"', id="segments"),
        pytest.param(
            {"removalPolicy": "Delete"},
            "spec.removalPolicy",
            'supported values: "Remove", "Retain"',
            id="removal-policy",
        ),
        pytest.param(
            {"publish": {"kai": "Always"}},
            "spec.publish.kai",
            'supported values: "Auto", "Never", "DryRun"',
            id="publish",
        ),
    ],
)
def test_unknown_choice_is_refused_with_those_that_there_are(
    served_once: ApiUnderTest, spec: Spec, field: str, message: str
) -> None:
    assert_refused(served_once, spec, field, message)


@pytest.mark.parametrize(
    "selector", [pytest.param({}, id="empty"), pytest.param({"matchLabels": {}}, id="empty-inside")]
)
def test_empty_selector_is_refused(served_once: ApiUnderTest, selector: Spec) -> None:
    spec = {"nodeSelector": selector}
    assert_refused(served_once, spec, "spec.nodeSelector", "leave nodeSelector out")


@pytest.mark.parametrize(
    ("key", "value", "field", "message"),
    [
        pytest.param("a b", "c", "spec.nodeSelector.matchLabels", "label key", id="key"),
        pytest.param("a/" + "k" * 64, "c", "spec.nodeSelector.matchLabels", "label key", id="long-name"),
        pytest.param("a", "-c", "spec.nodeSelector.matchLabels[a]", "label value", id="value"),
    ],
)
def test_selector_by_what_is_no_label_is_refused(
    served_once: ApiUnderTest, key: str, value: str, field: str, message: str
) -> None:
    assert_refused(served_once, label_selector(key, value), field, message)


@pytest.mark.parametrize(
    ("expression", "field", "message"),
    [
        pytest.param({"key": "a/", "operator": "Exists"}, "key", "not a label key", id="key"),
        pytest.param({"key": "a", "operator": "Gt", "values": ["1"]}, "operator", "Unsupported value", id="operator"),
        pytest.param({"key": "a", "operator": "In"}, "values", "operator In needs values", id="without-values"),
        pytest.param(
            {"key": "a", "operator": "Exists", "values": ["b"]},
            "values",
            "operator Exists takes no values",
            id="with-values",
        ),
    ],
)
def test_selector_by_what_is_no_expression_is_refused(
    served_once: ApiUnderTest, expression: Spec, field: str, message: str
) -> None:
    path = f"spec.nodeSelector.matchExpressions[0].{field}"
    assert_refused(served_once, expression_selector(expression), path, message)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(label_selector(UNIQUE_RACK, "z.r1"), id="nodes-that-have-them"),
        pytest.param(
            expression_selector({"key": "gpu.topology/unique-block", "operator": "DoesNotExist"}),
            id="nodes-that-lack-them",
        ),
    ],
)
def test_unique_values_of_nodes_selected_by_unique_values_are_refused(
    served_once: ApiUnderTest, selector: Spec
) -> None:
    spec = selector | {"uniqueValues": ["rack"]}
    assert_refused(served_once, spec, "spec.nodeSelector", "select by another label")


def selector_with_values(*counts: int) -> Spec:
    """A spec that selects nodes by this many values in each of its expressions."""
    expressions = []
    for number, count in enumerate(counts):
        expression = {
            "key": "gpu.topology/gpus",
            "operator": "NotIn",
            "values": [f"{number}-{value}" for value in range(count)],
        }
        expressions.append(expression)
    return expression_selector(*expressions)


def test_selector_with_as_many_values_as_a_controller_holds_is_taken(served_once: ApiUnderTest) -> None:
    assert_taken(served_once, selector_with_values(256, 255, 1))


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((256, 256, 1), id="one-too-many"),
        pytest.param((256,) * 32, id="largest"),
        pytest.param((17,) * 31, id="many-small-expressions"),
    ],
)
def test_selector_with_more_values_is_refused(served_once: ApiUnderTest, counts: tuple[int, ...]) -> None:
    spec = selector_with_values(*counts)
    status, body = create_topology(served_once, spec)
    assert status == 422
    (cause,) = body["details"]["causes"]
    assert cause["field"] == "spec.nodeSelector"
    assert "more than 512 values in all; give the nodes a label of their own" in cause["message"]


def test_field_that_does_not_exist_is_named(served_once: ApiUnderTest) -> None:
    spec = {"publish": {"nomad": "Auto"}}
    status, body = create_topology(served_once, spec)
    assert status == 400
    message = body["message"]
    assert message.endswith(': unknown field "spec.publish.nomad"')
