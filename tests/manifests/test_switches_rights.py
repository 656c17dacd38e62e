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


def test_in_a_namespace_of_its_own_it_leaves_the_others_restricted(
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
    known = {**pod, "spec": {**pod["spec"], "serviceAccountName": "toposcope-agent"}}
    code, answer = installed.request("POST", f"{NAMESPACE}/pods", known)
    assert (code, "violates PodSecurity" in answer["message"]) == (403, True)
    token = pod_token(installed, installed.create("/api/v1/namespaces/toposcope-switches/pods", pod))
    rights.wait_for(installed, (*IN_FORCE, *WORK), token)


@pytest.mark.regression
def test_it_writes_one_annotation_of_its_own_node_and_proves_it(
    installed: ApiUnderTest, kubectl: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    api, overlay = installed, write_overlay(tmp_path.resolve() / "overlay", ["switches"])
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", overlay)
    for path in (rights.OWN, rights.OTHER):
        rights.make_node(api, path)
    pod = built(kubectl, overlay).pod("switches", "a-switches", nodeName="confined-own")
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", pod))
    rights.wait_for(api, IN_FORCE, token)
    theirs: dict[str, Any] = {"annotations": {SWITCHES: "theirs"}, "finalizers": ["a.b/c"]}  # all it may not
    taints = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    before = rights.untouched(api)
    # With ours, the managedFields of who wrote that change, too; or there are none.
    for written in (theirs, theirs | {"managedFields": [{}]}):
        api.patch(rights.OWN, {"metadata": written, "spec": taints})
        before = rights.untouched(api)
        assert rights.surprises(api, WORK, token) == []
    assert rights.surprises(api, (LONGEST_ANNOTATION, *FORBIDDEN), token) == []
    unbound = [rights.apply_node("annotate", rights.OWN, "carries no node claim", annotations={SWITCHES: "{}"})]
    assert rights.surprises(api, unbound, rights.unbound_token(api, "toposcope-switches")) == []
    assert rights.granted_of(api, token, GRANTS) == GRANTS
    client = ApiClient(load(str(rights.kubeconfig_with(api, token, tmp_path))))
    request.addfinalizer(client.close)
    publisher = Publisher(client, "confined-own")
    confinement = Confinement(client, publisher.foreign_writes)
    confinement.check()
    assert confinement.confined
    assert publisher.publish('{"mlx5_0":null}')
    assert rights.untouched(api) == before
    assert api.get(rights.OWN)["metadata"]["annotations"][SWITCHES] == '{"mlx5_0":null}'
    api.patch(rights.OWN, {"metadata": {"finalizers": None}})
    assert api.request("DELETE", rights.OWN)[0] == 200
    rights.make_node(api, rights.OWN)  # another Node, though its name is the same
    anew = rights.apply_node("annotate", rights.OWN, "is older than the Node", MANAGER, annotations={SWITCHES: "{}"})
    assert rights.surprises(api, (anew,), token) == []
