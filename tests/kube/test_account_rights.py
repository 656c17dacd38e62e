"""What an account may do beyond what its program needs."""

import logging
from typing import Any

import pytest
from toposcope.kube.account_rights import AccountRights, Right
from toposcope.kube.client import Request
from toposcope.kube.errors import ApiError

EXPECTED = {Right("", "nodes", "get"), Right("", "nodes", "patch")}
OF_EVERYBODY = [
    {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectrulesreviews"]},
    {"verbs": ["create"], "apiGroups": ["", "project.openshift.io"], "resources": ["projectrequests"]},
    {"verbs": ["get", "list"], "apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"]},
    {"verbs": ["get", "patch"], "apiGroups": [""], "resources": ["nodes"]},
]


class Server:
    """Answers a review with rules, or a status."""

    def __init__(self, *rules: dict[str, Any], status: int = 201) -> None:
        self.rules = [*OF_EVERYBODY, *rules]
        self.status = status
        self.asked: list[Request] = []

    def call(self, request: Request) -> Any:
        self.asked.append(request)
        if self.status >= 400:
            raise ApiError(self.status, "Because", "no")
        return {"status": {"resourceRules": self.rules, "nonResourceRules": [], "incomplete": False}}


def excess(server: Server) -> list[str]:
    return AccountRights(EXPECTED, "toposcope-system").excess(server)


def rule(verb: str, resource: str, group: str = "", *names: str) -> dict[str, Any]:
    return {
        "verbs": [verb],
        "apiGroups": [group],
        "resources": [resource],
        "resourceNames": [*names],
    }


def test_what_it_needs_and_what_everybody_may_is_nothing_beyond() -> None:
    server = Server()
    assert excess(server) == []
    (request,) = server.asked
    body = request.body
    assert body is not None
    assert b'"namespace":"toposcope-system"' in body


@pytest.mark.parametrize(
    ("granted", "named"),
    [
        pytest.param(rule("get", "secrets"), "get secrets", id="get-secrets"),
        pytest.param(rule("get", "secrets", "", "one"), "get secrets", id="get-one-secret"),
        pytest.param(rule("list", "nodes"), "list nodes", id="list-nodes"),
        pytest.param(rule("patch", "nodes/status"), "patch nodes/status", id="patch-node-status"),
        pytest.param(rule("*", "nodes"), "do anything with nodes", id="all-verbs"),
        pytest.param(rule("get", "*"), "get all resources of the core group", id="all-of-core"),
        pytest.param(rule("*", "*", "*"), "do anything with all resources", id="everything"),
        pytest.param(rule("create", "pods/exec"), "create pods/exec", id="exec"),
        pytest.param(rule("delete", "daemonsets", "apps"), "delete daemonsets.apps", id="delete-daemonsets"),
        pytest.param(rule("impersonate", "users"), "impersonate users", id="impersonate"),
        pytest.param(
            rule("bind", "roles", "rbac.authorization.k8s.io"),
            "bind roles.rbac.authorization.k8s.io",
            id="bind-roles",
        ),
        pytest.param(
            rule("delete", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
            "delete validatingadmissionpolicies.admissionregistration.k8s.io",
            id="delete-policies",
        ),
    ],
)
def test_what_is_beyond_is_named(granted: dict[str, Any], named: str) -> None:
    assert excess(Server(granted)) == [named]


def test_an_expected_right_on_some_objects_is_expected() -> None:
    on_one_node = rule("patch", "nodes", "", "n1")
    assert excess(Server(on_one_node)) == []


def test_of_many_some_are_named() -> None:
    resources = (
        "secrets",
        "pods",
        "services",
        "events",
        "configmaps",
        "namespaces",
        "bindings",
    )
    rules = [rule("get", resource) for resource in resources]
    named = excess(Server(*rules))
    assert named[-1] == "2 more"


def test_where_no_account_may_ask_nothing_is_said_but_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    rights = AccountRights(EXPECTED, "default")
    server = Server(status=403)
    with caplog.at_level(logging.WARNING):
        assert rights.excess(server) == []
        assert rights.excess(server) == []
    (record,) = caplog.records
    message, _, _ = record.getMessage().partition(":")
    assert message == "cannot check whether this ServiceAccount has more rights than it needs"


def test_a_server_in_trouble_says_nothing_about_rights() -> None:
    with pytest.raises(ApiError):
        excess(Server(status=500))
