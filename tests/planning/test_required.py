"""What is read of a cluster's objects that say what gangs require."""

import msgspec
import pytest
from tests.planning.clusters import RACKS, cluster, pods
from tests.support.api import ApiUnderTest, Clients
from toposcope.planning.kept import KeptResult
from toposcope.planning.plan import Plan
from toposcope.planning.required import RequiredLevels
from toposcope.simulator.apiserver import requests
from toposcope.snapshot.scope import select_scope


def is_about_groups_of_kai(request: requests.HttpRequest) -> bool:
    return request.path == "/apis/scheduling.run.ai/v2alpha2/podgroups"


@pytest.mark.embedded_api("refuses on demand")
def test_gang_whose_group_may_not_be_listed_is_unobservable(api: ApiUnderTest, clients: Clients) -> None:
    assert api.embedded
    api.embedded.faults.reject(403, times=1_000, applies=is_about_groups_of_kai)
    required = RequiredLevels()
    required.read(clients())
    members = [msgspec.structs.replace(pod, annotations={"pod-group-name": "pg"}) for pod in pods("a", "n0", "n1")]
    snapshot = cluster(RACKS, [*members, *pods("of-no-group", "n2", "n3")])
    (gang,) = Plan(snapshot, select_scope(snapshot), required).kept

    assert gang.gang.name == "a"
    assert [(part.placement.result, part.unread) for part in gang.parts] == [
        (KeptResult.UNOBSERVABLE, "podgroups.scheduling.run.ai")
    ]
    (warning,) = required.warnings
    assert "podgroups.scheduling.run.ai" in warning
