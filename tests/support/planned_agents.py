"""Agents that only follow the controller's plan, for tests whose nodes have no agent: one look at every Node."""

from tests.support.api import NODES, ApiUnderTest, node
from toposcope.agent.planned import MANAGER, Planner
from toposcope.api.label_keys import SLINKY
from toposcope.integrations.node_plan import CONFIG_MAP, FIELD, decode

PLAN = f"/api/v1/namespaces/toposcope-system/configmaps/{CONFIG_MAP}"


def follow_the_plan(api: ApiUnderTest) -> None:
    """Have each Node carry what the plan wants, as its agent would; nothing happens where there is no plan."""
    status, config_map = api.request("GET", PLAN)
    if status != 200:
        return
    plan = decode(config_map["data"][FIELD])
    for item in api.get(NODES)["items"]:
        metadata = item["metadata"]
        name = metadata["name"]
        planner = Planner(name, can_write_unique=True, can_write_slinky=True)
        planner.follow(plan)
        wanted = planner.wanted(metadata, metadata.get("labels") or {})
        if wanted.keys == planner.present(metadata):
            continue
        annotations = dict(wanted.keys.annotations)
        if wanted.has_other_owner:
            annotations.pop(SLINKY, None)
        labels = dict(wanted.keys.labels)
        applied = node(name, labels=labels, annotations=annotations)
        status, answer = api.apply(f"{NODES}/{name}", applied, MANAGER)
        assert status == 200, answer
