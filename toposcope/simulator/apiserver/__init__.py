"""A small Kubernetes API server in one process, for the demo, tests and benchmarks.

It keeps nodes, pods, leases, events, CRDs and the resources that CRDs add, and is exact in what clients
depend on: server-side apply with field ownership, list and watch with bookmarks and expiry, optimistic
locking, structural schemas, `Status` errors. The project's API tests run against it and a real kube-apiserver
alike. Not simulated: authentication, authorization, admission, CEL rules of CRDs, graceful deletion,
garbage collection by owner, controllers of any kind.
"""

from __future__ import annotations

from toposcope.simulator.apiserver.server import EmbeddedApiServer, Tls

__all__ = ["EmbeddedApiServer", "Tls"]
