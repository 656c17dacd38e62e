"""What the token of `toposcope switches` may do on a real API server, and what it may not."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.support import NAMESPACE, built, run_kubectl, write_overlay
from tests.manifests.switches_attempts import FORBIDDEN, IN_FORCE, LONGEST_ANNOTATION, WORK
from tests.support.api import ApiUnderTest, pod_token
from tests.support.paths import DOCS, ROOT
from toposcope.api.label_keys import SWITCHES
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.confinement import Confinement
from toposcope.switches.publish import MANAGER, Publisher

pytestmark = pytest.mark.real_api("RBAC, TokenRequest and admission policies")


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
    return rights.apply_node("annotate", rights.OWN, says, MANAGER, annotations={SWITCHES: "{}"})


def test_switches_in_their_own_namespace_leave_others_restricted(
    installed: ApiUnderTest, kubectl: str, tmp_path: Path
) -> None:
    (recipe,) = re.findall("```yaml\n# toposcope-switches/(.*?)```", (DOCS / "security.md").read_text(), re.DOTALL)
    folder = tmp_path / "toposcope-switches"
    folder.mkdir()
    (tmp_path / "toposcope").symlink_to(ROOT)
    for part in recipe.split("---\n# toposcope-switches/"):
        name, _, text = part.partition("\n")
        (folder / name.partition(":")[0]).write_text(text)
    run_kubectl(kubectl, "--kubeconfig", installed.kubeconfig, "apply", "--server-side", "-k", folder)
    rights.make_node(installed, rights.OWN)
    pod = built(kubectl, folder).pod("switches", "a-switches", nodeName="confined-own")
    beside_the_agent = {**pod, "spec": {**pod["spec"], "serviceAccountName": "toposcope-agent"}}
    code, answer = installed.request("POST", f"{NAMESPACE}/pods", beside_the_agent)
    assert code == 403
    assert "violates PodSecurity" in answer["message"]
    token = pod_token(installed, installed.create("/api/v1/namespaces/toposcope-switches/pods", pod))
    rights.wait_for(installed, (*IN_FORCE, *WORK), token)


@pytest.mark.regression
def test_switches_write_one_annotation_of_their_own_node(
    installed: ApiUnderTest, kubectl: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    api = installed
    overlay = write_overlay(tmp_path.resolve() / "overlay", ["switches"])
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", overlay)
    for path in (rights.OWN, rights.OTHER):
        rights.make_node(api, path)
    pod = built(kubectl, overlay).pod("switches", "a-switches", nodeName="confined-own")
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", pod))
    rights.wait_for(api, IN_FORCE, token)

    # With what the program writes, the managedFields change of who wrote it before; or there are none.
    theirs: dict[str, Any] = {"annotations": {SWITCHES: "theirs"}, "finalizers": ["a.b/c"]}
    spec = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    api.patch(rights.OWN, {"metadata": theirs, "spec": spec})
    rights.assert_answers(api, WORK, token)
    api.patch(rights.OWN, {"metadata": theirs | {"managedFields": [{}]}, "spec": spec})
    before = rights.untouched(api)
    rights.assert_answers(api, WORK, token)

    rights.assert_answers(api, [LONGEST_ANNOTATION, *FORBIDDEN], token)
    unbound_token = rights.unbound_token(api, "toposcope-switches")
    rights.assert_answers(api, [annotate("carries no node claim")], unbound_token)
    assert rights.granted_of(api, token, GRANTS) == GRANTS

    client = ApiClient(load(str(rights.kubeconfig_with(api, token, tmp_path))))
    request.addfinalizer(client.close)
    publisher = Publisher(client, "confined-own")
    confinement = Confinement(client, publisher.foreign_writes)
    confinement.check()
    assert confinement.confined
    assert publisher.publish('{"mlx5_0":null}')
    assert rights.untouched(api) == before
    annotations = api.get(rights.OWN)["metadata"]["annotations"]
    assert annotations[SWITCHES] == '{"mlx5_0":null}'

    api.patch(rights.OWN, {"metadata": {"finalizers": None}})
    assert api.request("DELETE", rights.OWN)[0] == 200
    rights.make_node(api, rights.OWN)  # another Node, though its name is the same
    rights.assert_answers(api, [annotate("is older than the Node")], token)
