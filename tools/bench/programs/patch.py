"""The shortest program that patches a Node over TLS: the limit for an agent's start."""

import http.client
import json
import os
import ssl


def main() -> int:
    """Send one server-side apply to the Node `NODE_NAME`."""
    name = os.environ["NODE_NAME"]
    context = ssl.create_default_context(cafile=os.environ["BENCH_ACCOUNT"] + "/ca.crt")
    connection = http.client.HTTPSConnection(
        os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]), context=context
    )
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"gpu.topology/gpus": "8"}}}
    connection.request(
        "PATCH",
        f"/api/v1/nodes/{name}?fieldManager=bench&force=true",
        json.dumps(body),
        {"Content-Type": "application/apply-patch+yaml"},
    )
    answer = connection.getresponse()
    answer.read()
    return 0 if answer.status == http.HTTPStatus.OK else 1
