"""A small Kubernetes API server in one process.

`make demo` and benchmarks use it, and so do tests where there is no kube-apiserver.

It keeps nodes, pods, leases, events, CRDs and the resources that CRDs add. It serves what kubectl
needs to get, label, apply, watch and describe them, and does what this project's programs depend
on: server-side apply with field ownership, list and watch with bookmarks and expiry, optimistic
locking, `Status` errors, dry runs. Tests can make it fail on demand.

Not simulated: authentication, authorization, admission, CEL, most validation, graceful deletion,
garbage collection by owner or namespace, what is wrong with a CRD, bodies in YAML, lists of the
past, set selectors, core/v1 Events, controllers of any kind.
"""

from toposcope.simulator.apiserver.server import Certificates, EmbeddedApiServer

__all__ = ["Certificates", "EmbeddedApiServer"]
