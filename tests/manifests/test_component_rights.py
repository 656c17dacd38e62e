"""What a component adds to the rights of an agent's token, on a real API server."""

from typing import Any

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.component_attempts import (
    NODE_ENDPOINT,
    NVIDIA_LABELS,
    SLINKY_ANNOTATION,
    UNIQUE_VALUES,
    ComponentRights,
)
from tests.manifests.support import NAMESPACE, Manifests, Render, changed, run_kubectl
from tests.support.api import ApiUnderTest, pod_token

pytestmark = pytest.mark.slow

RIGHTS: dict[str, ComponentRights] = {
    "node-endpoint": NODE_ENDPOINT,
    "nvidia-labels": NVIDIA_LABELS,
    "slinky": SLINKY_ANNOTATION,
    "unique-values": UNIQUE_VALUES,
}


def kubectl_objects(kubectl: str, api: ApiUnderTest, *command: str, objects: list[dict[str, Any]]) -> None:
    """Run a command of kubectl on these objects."""
    if not objects:
        return
    run_kubectl(
        kubectl,
        "--kubeconfig",
        api.kubeconfig,
        *command,
        "-f",
        "-",
        stdin=yaml.safe_dump_all(objects),
    )


def ensure_plan(api: ApiUnderTest) -> None:
    """Have the controller's plan there."""
    plan = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "toposcope-node-plan"},
    }
    code, answer = api.request("POST", f"{NAMESPACE}/configmaps", plan)
    assert code in {201, 409}, answer


@pytest.mark.regression
@pytest.mark.parametrize("component", RIGHTS)
def test_component_gives_the_agent_what_it_says_and_nothing_else(
    installed_once: ApiUnderTest, kubectl: str, render: Render, base: Manifests, component: str
) -> None:
    api = installed_once
    expected = RIGHTS[component]
    for attempt in expected.present:
        api.create(attempt.path, attempt.body)
    ensure_plan(api)
    pod = base.pod("agent", f"on-{expected.node}", nodeName=expected.node)
    created = api.create(f"{NAMESPACE}/pods", pod)
    token = pod_token(api, created)
    rights.wait_for(api, expected.refused_without, token)

    overlay = render(component)
    before = base.by_name()
    after = overlay.by_name()
    changes = changed(base, overlay)
    added = [after[name] for name in changes - before.keys()]
    modified = [after[name] for name in changes & before.keys()]
    originals = [before[name] for name in changes & before.keys()]
    kubectl_objects(kubectl, api, "apply", "--server-side", objects=[*added, *modified])
    try:
        rights.wait_for(api, expected.in_force, token)
        rights.assert_answers(api, expected.work, token)
        rights.assert_answers(api, expected.forbidden, token)
    finally:  # the next component's test starts from the base
        kubectl_objects(kubectl, api, "delete", objects=added)
        kubectl_objects(kubectl, api, "apply", "--server-side", objects=originals)
