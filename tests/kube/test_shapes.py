"""What an answer must look like, by the request."""

import pytest

from tests.kube.scripted import ScriptedServer, answer
from toposcope.kube.client import Request
from toposcope.kube.errors import UnreachableError

NODE = "/api/v1/nodes/n"
NODES = "/api/v1/nodes"
NAMED = '"name":"n","uid":"u"'


@pytest.mark.parametrize(
    ("request_", "body", "wrong"),
    [
        (f"GET {NODE}", "[]", "it is not a mapping"),
        (f"GET {NODE}", "null", "it is not a mapping"),
        (f"GET {NODE}", "{}", "metadata is missing"),
        (f"PATCH {NODE}", '{"metadata":"x"}', "metadata is not a mapping"),
        (f"PATCH {NODE}/status", '{"metadata":{"name":"n"}}', "metadata.uid is missing"),
        (f"GET {NODE}", f'{{"metadata":{{{NAMED},"labels":[]}}}}', "metadata.labels is not a mapping"),
        (f"GET {NODE}", f'{{"metadata":{{{NAMED},"labels":{{"a":1}}}}}}', "metadata.labels.a is not text"),
        (f"GET {NODE}", f'{{"metadata":{{{NAMED},"finalizers":[1]}}}}', r"metadata.finalizers\[0\] is not text"),
        (
            f"GET {NODE}",
            f'{{"metadata":{{{NAMED},"managedFields":[{{"fieldsV1":{{"f:metadata":[]}}}}]}}}}',
            r"metadata.managedFields\[0\].fieldsV1.f:metadata is not a mapping",
        ),
        (f"GET {NODE}", f'{{"metadata":{{{NAMED}}},"status":"Success"}}', "status is not a mapping"),
        (f"GET {NODES}", '{"metadata":{},"items":{}}', "items is not a list"),
        (f"GET {NODES}", '{"metadata":{},"items":[null]}', r"items\[0\] is missing"),
        (f"GET {NODES}", '{"metadata":{"continue":1}}', "metadata.continue is not text"),
        (f"POST {NODES}", "{}", "metadata is missing"),
        (f"DELETE {NODE}", "[]", "it is not a mapping"),
        ("GET /apis", "{}", "groups is missing"),
        ("GET /apis/a.b", '{"versions":["v1"]}', r"versions\[0\] is not a mapping"),
        ("GET /apis/a.b/v1", '{"resources":[{}]}', r"resources\[0\].name is missing"),
    ],
)
def test_another_shape_is_no_answer(request_: str, body: str, wrong: str) -> None:
    method, path = request_.split()
    with ScriptedServer([answer(body.encode())]) as server:
        message = f"^the answer to {request_} is not a Kubernetes API server's: {wrong} in "
        with pytest.raises(UnreachableError, match=message):
            server.client().call(Request(method, path, {}))


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (f"GET {NODE}", f'{{"metadata":{{{NAMED},"labels":null,"ownerReferences":[]}},"spec":{{}},"more":[1]}}'),
        (f"GET {NODES}", '{"metadata":{},"items":null}'),
        (f"GET {NODES}", f'{{"metadata":{{"continue":"x"}},"items":[{{"metadata":{{{NAMED}}}}}]}}'),
        (f"DELETE {NODE}", '{"kind":"Status","metadata":{},"status":"Success"}'),
        ("GET /api", '{"versions":["v1"]}'),
        ("GET /api/v1", '{"resources":[{"name":"nodes"}]}'),
        ("GET /version", '{"major":"1"}'),
    ],
)
def test_what_a_server_sends_is_taken(request_: str, body: str) -> None:
    method, path = request_.split()
    with ScriptedServer([answer(body.encode())]) as server:
        assert isinstance(server.client().call(Request(method, path, {})), dict)
