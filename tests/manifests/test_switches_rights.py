"""What the token of `toposcope switches` may do on a real API server, and what it may not."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.support import NAMESPACE, apply_folder, built, write_overlay
from tests.manifests.switches_attempts import FORBIDDEN, IN_FORCE, LONGEST_ANNOTATION, WORK
from tests.support.api import ApiUnderTest, pod_token
from tests.support.paths import DOCS, ROOT
from toposcope.api.label_keys import SWITCHES
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.confinement import Confinement
from toposcope.switches.publish import MANAGER, SwitchesPublisher

pytestmark = [pytest.mark.slow, pytest.mark.real_api("RBAC, TokenRequest and admission policies")]


GRANTS = rights.grants(
    get_patch=["nodes"],
    list=["clustertopologies.gpu.topology"],
    none=[
        "clustertopologies/status.gpu.topology",
        "nodes/status",
        "nodes/proxy",
        "pods",
        "secrets",
        "configmaps",
        "events.events.k8s.io",
    ],
)


def annotate(says: str) -> rights.Attempt:
    """Write the annotation, which is refused."""
    return rights.apply_node(
        "annotate",
        rights.OWN,
        says,
        MANAGER,
        annotations={SWITCHES: "{}"},
    )


def write_recipe(folder: Path) -> Path:
    """The folder that docs/security.md tells an administrator to make."""
    page = (DOCS / "security.md").read_text()
    (recipe,) = re.findall("```yaml\n# toposcope-switches/(.*?)```", page, re.DOTALL)
    kustomization = folder / "toposcope-switches"
    kustomization.mkdir()
    (folder / "toposcope").symlink_to(ROOT)
    for part in recipe.split("---\n# toposcope-switches/"):
        title, _, text = part.partition("\n")
        name, _, _ = title.partition(":")
        (kustomization / name).write_text(text)
    return kustomization


def test_switches_in_their_own_namespace_leave_others_restricted(
    installed: ApiUnderTest, kubectl: str, tmp_path: Path
) -> None:
    api = installed
    folder = write_recipe(tmp_path)
    apply_folder(api, kubectl, folder)
    rights.make_node(api, rights.OWN)
    manifests = built(kubectl, folder)

    beside_the_agent = manifests.pod(
        "switches",
        "a-switches",
        nodeName="confined-own",
        serviceAccountName="toposcope-agent",
    )
    code, answer = api.request("POST", f"{NAMESPACE}/pods", beside_the_agent)
    assert code == 403
    assert "violates PodSecurity" in answer["message"]

    pod = manifests.pod("switches", "a-switches", nodeName="confined-own")
    created = api.create("/api/v1/namespaces/toposcope-switches/pods", pod)
    token = pod_token(api, created)
    rights.wait_for(api, (*IN_FORCE, *WORK), token)


@pytest.mark.regression
def test_switches_write_one_annotation_of_their_own_node(
    installed: ApiUnderTest, kubectl: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    api = installed
    overlay = write_overlay(tmp_path.resolve() / "overlay", ["switches"])
    apply_folder(api, kubectl, overlay)
    rights.make_node(api, rights.OWN)
    rights.make_node(api, rights.OTHER)
    pod = built(kubectl, overlay).pod("switches", "a-switches", nodeName="confined-own")
    created = api.create(f"{NAMESPACE}/pods", pod)
    token = pod_token(api, created)
    rights.wait_for(api, IN_FORCE, token)

    # With what the program writes, the managedFields change of who wrote it before; or there are none.
    theirs: dict[str, Any] = {
        "annotations": {SWITCHES: "theirs"},
        "finalizers": ["a.b/c"],
    }
    spec = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    api.patch(rights.OWN, {"metadata": theirs, "spec": spec})
    rights.assert_answers(api, WORK, token)
    theirs["managedFields"] = [{}]
    api.patch(rights.OWN, {"metadata": theirs, "spec": spec})
    before = rights.untouched(api)
    rights.assert_answers(api, WORK, token)

    rights.assert_answers(api, [LONGEST_ANNOTATION, *FORBIDDEN], token)
    unbound_token = rights.unbound_token(api, "toposcope-switches")
    rights.assert_answers(api, [annotate("carries no node claim")], unbound_token)
    granted = rights.granted_of(api, token, GRANTS)
    assert granted == GRANTS

    kubeconfig = rights.kubeconfig_with(api, token, tmp_path)
    client = ApiClient(load(str(kubeconfig)))
    request.addfinalizer(client.close)
    publisher = SwitchesPublisher(client, "confined-own")
    confinement = Confinement(client, publisher.foreign_writes)
    confinement.check()
    assert confinement.is_confined
    assert publisher.publish('{"mlx5_0":null}')
    assert rights.untouched(api) == before
    metadata = api.get(rights.OWN)["metadata"]
    assert metadata["annotations"][SWITCHES] == '{"mlx5_0":null}'

    api.patch(rights.OWN, {"metadata": {"finalizers": None}})
    code, _ = api.request("DELETE", rights.OWN)
    assert code == 200
    rights.make_node(api, rights.OWN)  # another Node, though its name is the same
    rights.assert_answers(api, [annotate("is older than the Node")], token)
