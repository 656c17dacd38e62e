"""What an answer must look like, by the request."""

import pytest

from tests.kube.scripted import ScriptedServer, answer
from tests.support.tables import each_case
from toposcope.kube.client import Request
from toposcope.kube.errors import UnreachableError

NODE = "/api/v1/nodes/n"
NODES = "/api/v1/nodes"


@each_case("tables/kube.yaml")
def test_another_shape_is_no_answer(request_: str, body: str, wrong: str) -> None:
    method, path = request_.split()
    with ScriptedServer([answer(body.encode())]) as server:
        message = f"^the answer to {request_} is not a Kubernetes API server's: {wrong} in "
        with pytest.raises(UnreachableError, match=message):
            server.client().call(Request(method, path, {}))


@each_case("tables/kube.yaml")
def test_what_a_server_sends_is_taken(request_: str, body: str) -> None:
    method, path = request_.split()
    with ScriptedServer([answer(body.encode())]) as server:
        assert isinstance(server.client().call(Request(method, path, {})), dict)
