"""Events (events.k8s.io/v1) on objects, one per thing that happened.

The name is made from the object and the moment, so that a repeated POST of the same event is a 409 and not a second
event.
"""

import hashlib
from datetime import datetime
from typing import Any, Final

from toposcope.kube.client import Request
from toposcope.topology.text import compact

_LONGEST_NOTE: Final = 1024


def event(
    regarding: dict[str, str], kind: str, reason: str, note: str, reporter: str, instance: str, now: datetime
) -> Request:
    """The request that records an event about `regarding` (apiVersion, kind, name, uid, namespace if it has one).

    `kind` is `Normal` or `Warning`. Events about cluster-scoped objects live in the namespace `default`. Notes are
    cut at the API's limit of 1024 bytes.
    """
    namespace = regarding.get("namespace") or "default"
    moment = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    digest = hashlib.sha256(f"{regarding}{reason}{note}{moment}".encode()).hexdigest()[:16]
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        # Cut, a name may end in what no part of a name may end in.
        "metadata": {"name": f"{regarding['name'][:200].rstrip('-.')}.{digest}", "namespace": namespace},
        "eventTime": moment,
        "type": kind,
        "reason": reason,
        "action": "Checked",
        "note": note.encode()[:_LONGEST_NOTE].decode(errors="ignore"),
        "regarding": regarding,
        "reportingController": f"gpu.topology/{reporter}",
        "reportingInstance": instance[:128] or reporter,
    }
    return Request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", {}, compact(body).encode())
