"""An admin's own levels, from a configuration file or its ConfigMap; test_config.py has them in a running cluster."""

import textwrap

import pytest
from tests.cli.clusters import own_levels, own_levels_unassigned
from tests.cli.conftest import Command, CommandOnCluster, Save, Write
from tests.support.paths import DOCUMENTS

pytestmark = pytest.mark.regression

CONFIG = (DOCUMENTS / "cli" / "own-levels.yaml").read_text(encoding="utf-8")
CONFIG_MAP = f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: toposcope-config}}
data:
  config.yaml: |
{textwrap.indent(CONFIG, "    ")}"""
PATHS = ["row-1", "row-1/rack-1", "row-1/rack-1/n1", "row-1/rack-2", "row-1/rack-2/n2", "row-1/rack-2/n3"]
PAIRED_SET = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm, namespace: ml}
spec:
  replicas: 1
  template:
    topologyConstraint: {topologyName: cluster, pack: {required: row}}
    cliques:
    - name: worker
      topologyConstraint: {pack: {required: rack}}
      spec:
        roleName: worker
        replicas: 2
        podSpec: {schedulerName: kai-scheduler, containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}
"""


@pytest.fixture(params=[CONFIG, CONFIG_MAP], ids=["file", "config-map"])
def _config_in_either_form(request: pytest.FixtureRequest, write: Write) -> None:
    write("config.yaml", request.param)


def test_tree_without_configuration_knows_hosts_alone(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(own_levels, "tree -o name").out.split() == ["n1", "n2", "n3"]


@pytest.mark.usefixtures("_config_in_either_form")
def test_tree_knows_configured_levels(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(own_levels, "tree -o name --config config.yaml").out.split() == PATHS


@pytest.mark.usefixtures("_config_in_either_form")
def test_levels_are_the_configured_ones(toposcope_on: CommandOnCluster) -> None:
    assert toposcope_on(own_levels, "levels -o name --config config.yaml").out.split() == ["row", "rack", "host"]


def test_export_has_configured_levels(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("config.yaml", CONFIG)
    topology = toposcope_on(own_levels, "export --format kai --config config.yaml").yaml
    assert topology["spec"]["levels"] == [
        {"nodeLabel": "example.com/row"},
        {"nodeLabel": "example.com/rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]


def test_suggestion_has_configured_levels(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("config.yaml", CONFIG)
    out = toposcope_on(own_levels, "suggest --config config.yaml").out
    assert "# All of them have row > rack > host" in out


def test_check_without_configuration_knows_no_row(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", PAIRED_SET)
    out = toposcope_on(own_levels, "check -f work.yaml", code=1).out
    assert "topology domain 'row' does not exist" in out


def test_check_knows_configured_levels(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("config.yaml", CONFIG)
    write("work.yaml", PAIRED_SET)
    assert "fits: " in toposcope_on(own_levels, "check -f work.yaml --config config.yaml").out


def test_check_names_a_label_that_is_no_level_here_by_its_domain(toposcope_on: CommandOnCluster, write: Write) -> None:
    write(
        "config.yaml",
        """
        apiVersion: config.gpu.topology/v1alpha1
        kind: ControllerConfig
        catalogue: {keys: [{key: example.com/shelf, domain: rack}]}
        """,
    )
    write(
        "work.yaml",
        """
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: j, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: example.com/shelf}}
        spec:
          replicatedJobs:
          - name: a
            template:
              spec:
                parallelism: 3
                template: {spec: {containers: [{name: x, resources: {limits: {nvidia.com/gpu: 8}}}]}}
        """,
    )
    out = toposcope_on(own_levels, "check -f work.yaml --config config.yaml", code=1).out
    assert "cannot fit: 1 job of a needs one rack to itself; there are 0" in out


def test_explain_knows_configured_levels(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("config.yaml", CONFIG)
    write("work.yaml", PAIRED_SET)
    out = toposcope_on(own_levels, "explain pcs/llm -n ml --from work.yaml --config config.yaml").out
    assert "Nothing is wrong" in out


def test_node_with_a_configured_placeholder_lacks_the_level(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("config.yaml", CONFIG)
    node = toposcope_on(own_levels_unassigned, "nodes --config config.yaml -o json").json["nodes"][0]
    assert node["domains"] == {"row": "row-1", "host": "n1"}


def test_levels_name_a_configured_placeholder(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("config.yaml", CONFIG)
    out = toposcope_on(own_levels_unassigned, "levels --config config.yaml", code=1).out
    assert "1 node lacks it (1 with the placeholder 'unassigned') and all 3 must carry it: n1" in out


def test_saved_snapshot_is_read_with_configured_levels(save: Save, toposcope: Command, write: Write) -> None:
    write("config.yaml", CONFIG)
    toposcope(f"save saved --from {save(own_levels)}")
    assert toposcope("tree --from saved -o name --config config.yaml").out.split() == PATHS


def test_conversion_knows_configured_levels(toposcope: Command, write: Write) -> None:
    write("config.yaml", CONFIG)
    write(
        "topology.yaml",
        """
        apiVersion: kai.scheduler/v1alpha1
        kind: Topology
        metadata: {name: cluster}
        spec: {levels: [{nodeLabel: example.com/row}, {nodeLabel: example.com/rack}]}
        """,
    )
    pool = toposcope("export --format osmo --convert topology.yaml --config config.yaml").yaml
    assert pool["topology_keys"] == [
        {"key": "row", "label": "example.com/row"},
        {"key": "rack", "label": "example.com/rack"},
    ]


def test_near_miss_that_is_a_level_is_a_warning(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("config.yaml", f"{CONFIG}  nearMisses: [{{key: example.com/rack}}]\n")
    ran = toposcope_on(own_levels, "tree -o name --config config.yaml")
    assert ran.out.split() == PATHS
    assert "warning: config.yaml:9: catalogue.nearMisses[0].key: 'example.com/rack' is a level" in ran.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("kind: ConfigMap\n", "data: the ConfigMap has no config.yaml", id="empty-config-map"),
        pytest.param("{", "--config config.yaml:2: not YAML", id="no-yaml"),
        pytest.param("kind: Pod\n", "apiVersion: must be config.gpu.topology/v1alpha1", id="another-kind"),
    ],
)
def test_text_that_is_no_configuration_is_refused(
    text: str, message: str, toposcope_on: CommandOnCluster, write: Write
) -> None:
    write("config.yaml", text)
    assert message in toposcope_on(own_levels, "tree --config config.yaml", code=2).err


@pytest.mark.usefixtures("folder")
def test_missing_configuration_is_an_error(toposcope_on: CommandOnCluster) -> None:
    assert "No such file" in toposcope_on(own_levels, "tree --config none", code=2).err
