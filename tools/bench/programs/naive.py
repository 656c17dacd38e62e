"""What most controllers in Python do: list all Nodes with the `kubernetes` package's typed client and keep them."""

import os
from pathlib import Path
from typing import Any

from kubernetes import client

from tools.bench.programs import done

_PAGE = 500


def main() -> int:
    """List page by page into a dict of V1Node by name, as an informer's store is."""
    account = Path(os.environ["BENCH_ACCOUNT"])
    settings = client.Configuration()
    settings.host = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    settings.ssl_ca_cert = str(account / "ca.crt")
    settings.api_key = {"authorization": f"Bearer {(account / 'token').read_text()}"}
    nodes: dict[str, Any] = {}
    page: Any
    with client.ApiClient(settings) as connection:
        api = client.CoreV1Api(connection)
        more: str | None = None
        while more != "":
            page = api.list_node(limit=_PAGE, _continue=more) if more else api.list_node(limit=_PAGE)
            nodes |= {node.metadata.name: node for node in page.items}
            more = page.metadata._continue or ""  # noqa: SLF001 - the package's own name for it
        return done(len(nodes))
