"""What a component adds to the rights of an agent's token, on a real API server."""

from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from tests.manifests import rights
from tests.manifests.component_attempts import NVIDIA_LABELS, SLINKY_ANNOTATION, UNIQUE_VALUES, ComponentRights
from tests.manifests.support import NAMESPACE, Manifests, Render, changed, run_kubectl
from tests.support.api import ApiUnderTest, pod_token


def kubectl_objects(kubectl: str, api: ApiUnderTest, *command: str, objects: Iterable[dict[str, Any]]) -> None:
    """Run a command of kubectl on these objects."""
    documents = list(objects)
    if documents:
        text = yaml.safe_dump_all(documents)
        run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, *command, "-f", "-", stdin=text)


def ensure_plan(api: ApiUnderTest) -> None:
    """Have the controller's plan there."""
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "toposcope-node-plan"}}
    code, answer = api.request("POST", f"{NAMESPACE}/configmaps", plan)
    assert code in {201, 409}, answer


@pytest.mark.regression
@pytest.mark.parametrize(
    ("component", "expected"),
    [
        pytest.param("nvidia-labels", NVIDIA_LABELS, id="nvidia-labels"),
        pytest.param("slinky", SLINKY_ANNOTATION, id="slinky"),
        pytest.param("unique-values", UNIQUE_VALUES, id="unique-values"),
    ],
)
def test_component_gives_the_agent_what_it_says_and_nothing_else(
    installed_once: ApiUnderTest,
    kubectl: str,
    render: Render,
    base: Manifests,
    component: str,
    expected: ComponentRights,
) -> None:
    api = installed_once
    for attempt in expected.present:
        api.create(attempt.path, attempt.body)
    ensure_plan(api)
    pod = base.pod("agent", f"on-{expected.node}", nodeName=expected.node)
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", pod))
    rights.wait_for(api, expected.refused_without, token)

    overlay = render(component)
    before, after = base.by_name(), overlay.by_name()
    changes = changed(base, overlay)
    kubectl_objects(kubectl, api, "apply", "--server-side", objects=[after[name] for name in changes])
    try:
        rights.wait_for(api, expected.in_force, token)
        rights.assert_answers(api, expected.work, token)
        rights.assert_answers(api, expected.forbidden, token)
    finally:  # the next component's test starts from the base
        added = changes - before.keys()
        kubectl_objects(kubectl, api, "delete", objects=[after[name] for name in added])
        modified = changes & before.keys()
        kubectl_objects(kubectl, api, "apply", "--server-side", objects=[before[name] for name in modified])
