"""The page's server in the cluster: what it is made of, and what its token may and may not do."""

import contextlib
from pathlib import Path

import pytest
from tests.manifests import support
from tests.manifests.rights import granted_of, grants, kubeconfig_with, unbound_token
from tests.support.api import NODES, ApiUnderTest, node, wait_until
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.cli.catalogue import CONFIG_MAP, KEY, of_cluster
from toposcope.integrations.kueue.api import READ
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.ui.facts import Facts
from toposcope.ui.live import EXPECTED, LiveSource
from toposcope.ui.program import listening

CONFIG_MAPS = f"{support.NAMESPACE}/configmaps"
OWN_LEVELS = {
    KEY: """{apiVersion: config.gpu.topology/v1alpha1, kind: ControllerConfig,
  catalogue: {domains: [{name: hall, after: block, keys: [example.com/hall]}]}}"""
}
GRANTS = grants(
    get_list_watch=["nodes"],
    list_watch=["pods", "clustertopologies.gpu.topology"],
    list=[
        "clustertopologybindings.grove.io",
        "clustertopologies.grove.io",
        "topologies.kai.scheduler",
        "topologies.kueue.x-k8s.io",
    ],
    none=[
        "nodes/proxy",
        "nodes/status",
        "pods/log",
        "pods/exec",
        "pods/eviction",
        "secrets",
        "configmaps",
        "events",
        "services/proxy",
        "serviceaccounts/token",
        "deployments.apps",
        "jobs.batch",
        "leases.coordination.k8s.io",
        "events.events.k8s.io",
        "clustertopologies/status.gpu.topology",
        "clusterroles.rbac.authorization.k8s.io",
    ],
)


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    return support.write_overlay(tmp_path.resolve() / "overlay", ["ui"])


@pytest.fixture
def found(kubectl: str, overlay: Path) -> support.Manifests:
    return support.built(kubectl, overlay)


def test_pod_is_confined_and_listens_where_its_probes_ask(found: support.Manifests) -> None:
    container = found.container("ui")
    support.assert_starts_quietly(container)
    assert container["image"] == found.container("controller")["image"]
    labels = found.pod_template("ui")["metadata"]["labels"]
    service = found.get("Service", "toposcope-ui")
    selector = service["spec"]["selector"]
    assert selector.items() <= labels.items()
    policy = found.get("NetworkPolicy", "toposcope-ui")
    selector = policy["spec"]["podSelector"]
    assert selector["matchLabels"].items() <= labels.items()
    controller = found.get("Deployment", "toposcope-controller")
    selector = controller["spec"]["selector"]
    assert not selector["matchLabels"].items() <= labels.items()


def test_page_listens_for_both_families() -> None:
    with listening("::", 0) as listener, listening("127.0.0.1", 0):
        assert listener.getsockname()[1]


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.real_api("RBAC, TokenRequest and Pod Security admission")
def test_token_reads_what_the_page_shows_and_nothing_else(
    installed: ApiUnderTest, kubectl: str, overlay: Path, found: support.Manifests, tmp_path: Path
) -> None:
    api = installed
    support.apply_folder(api, kubectl, overlay)
    pod = found.pod("ui", "tried")
    code, answer = api.request("POST", f"{support.NAMESPACE}/pods?dryRun=All", pod)
    assert code == 201, answer
    token = unbound_token(api, "toposcope-ui")
    wait_until(
        lambda: api.ask("GET", NODES, token=token).code == 200,
        "the role is in force",
    )
    expected = dict(GRANTS)
    for kind in READ:
        expected[kind.group, kind.plural] = {"list"}
    granted = granted_of(api, token, expected)
    assert granted == expected

    # And it is enough for the program, with an admin's own levels.
    kubeconfig = kubeconfig_with(api, token, tmp_path)
    cluster = load(str(kubeconfig))
    with contextlib.closing(ApiClient(cluster)) as client:
        for name in (CONFIG_MAP, "another"):
            config_map = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name,
                    "namespace": HOME_NAMESPACE,
                },
                "data": OWN_LEVELS,
            }
            api.create(CONFIG_MAPS, config_map)
        code, _ = api.request("GET", f"{CONFIG_MAPS}/another", token=token)
        assert code == 403
        catalogue = of_cluster(client)
        assert "example.com/hall" in catalogue.tracked

    api.create(NODES, node("seen"))
    facts = Facts("the real one", EXPECTED, lambda: None)
    source = LiveSource(cluster, facts)
    source.start()
    wait_until(lambda: facts.is_complete, "everything was read")
    snapshot = facts.snapshot()
    assert facts.stale() is None
    assert snapshot.warnings == ()
    assert snapshot.pods is not None
    (topology,) = snapshot.topologies
    assert topology.name == "cluster"
    assert source.node("seen")
    assert source.published().published == ()
    assert source.required().warnings == []
    source.close()
