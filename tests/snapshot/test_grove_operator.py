"""The configuration of Grove's operator, from files, from a snapshot and from a cluster."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.api import ApiUnderTest, Clients
from tests.support.documents import read_manifest
from tests.support.saved import Object, saved
from tests.support.upstream_crds import stand_in
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files
from toposcope.snapshot.live import WantedParts, load_live
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.packed import read_packed, write_packed

KUBE, KAI = "default-scheduler", "kai-scheduler"


def config_map(default: str = "", *, name: str = "grove-operator-cm-1", is_topology_aware: bool = True) -> Object:
    """The operator's ConfigMap with both schedulers, and one of them as the default."""
    document = read_manifest("snapshot/grove-operator.yaml")
    document["metadata"]["name"] = name
    text = document["data"]["config.yaml"]
    if not is_topology_aware:
        text = text.replace("enabled: true", "enabled: false")
    if default:
        text = text.replace("profiles:", f"defaultProfileName: {default}\n  profiles:")
    document["data"]["config.yaml"] = text
    return document


def with_data(name: str, data: object) -> Object:
    """A ConfigMap of the operator that holds something else."""
    return {**config_map(name=name), "data": data}


NOT_CONFIGURATIONS = [with_data("broken", {"a": "kind: [OperatorConfiguration", "b": 1}), with_data("other", None)]


def load(folder: Path, *documents: Object) -> Snapshot:
    """A cluster of these objects, from a file."""
    file = folder / "cluster.json"
    file.write_text(saved(list(documents)))
    return load_files([str(file)])


def profiles_in(folder: Path, *documents: Object) -> SchedulerProfiles | None:
    """What is known of the schedulers, from files; from a saved snapshot it is the same."""
    snapshot = load(folder, *documents)
    file = folder / "saved"
    with file.open("wb") as out:
        write_packed(snapshot, out)
    packed = read_packed(file, lambda _name, _not_ok: False)
    assert packed.scheduler_profiles == snapshot.scheduler_profiles
    return snapshot.scheduler_profiles


def test_profiles_default_to_the_scheduler_of_kubernetes(tmp_path: Path) -> None:
    profiles = profiles_in(tmp_path, config_map())
    assert profiles == SchedulerProfiles((KUBE, KAI), KUBE, True)


def test_profiles_have_the_configured_default(tmp_path: Path) -> None:
    document = config_map(KAI, is_topology_aware=False)
    profiles = profiles_in(tmp_path, document)
    assert profiles == SchedulerProfiles((KUBE, KAI), KAI, False)


def test_config_maps_that_are_no_configuration_are_ignored(tmp_path: Path) -> None:
    profiles = profiles_in(tmp_path, config_map(KAI), *NOT_CONFIGURATIONS)
    assert profiles == SchedulerProfiles((KUBE, KAI), KAI, True)


def test_profiles_are_unknown_without_a_configuration(tmp_path: Path) -> None:
    assert profiles_in(tmp_path, *NOT_CONFIGURATIONS) is None


def test_profiles_are_unknown_where_an_upgrade_left_a_configuration_behind(tmp_path: Path) -> None:
    documents = [
        config_map(KAI),
        config_map(name="grove-operator-cm-2"),
    ]
    assert profiles_in(tmp_path, *documents) is None


def test_profiles_of_a_cluster_are_read_where_grove_is_installed(api: ApiUnderTest, clients: Clients) -> None:
    config_maps = "/api/v1/namespaces/default/configmaps"
    api.create(config_maps, config_map(KAI))
    unlabelled = config_map()
    unlabelled["metadata"] = {"name": "unlabelled"}
    api.create(config_maps, unlabelled)

    def look() -> SchedulerProfiles | None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        wanted = WantedParts(has_pods=False, has_published=True)
        snapshot = load_live(clients(), "s", now, wanted)
        return snapshot.scheduler_profiles

    assert look() is None
    binding = stand_in(
        "grove.io",
        "v1alpha1",
        "ClusterTopologyBinding",
        "clustertopologybindings",
    )
    api.install_crd(binding)
    assert look() == SchedulerProfiles((KUBE, KAI), KAI, True)


@pytest.mark.regression
@pytest.mark.parametrize(
    ("config_maps", "rules", "is_placeable"),
    [
        pytest.param([], ["grove/scheduler-default"], True, id="unknown-scheduler"),
        pytest.param([config_map()], ["grove/scheduler-name"], False, id="kubernetes"),
        pytest.param([config_map(KAI)], [], True, id="kai"),
    ],
)
def test_check_knows_who_schedules(
    config_maps: list[Object], rules: list[str], *, is_placeable: bool, tmp_path: Path
) -> None:
    binding = read_manifest("snapshot/grove-binding.yaml")
    workload = read_manifest("snapshot/pod-clique-set.yaml")
    checker = Checker(load(tmp_path, binding, *config_maps))
    (checked,) = checker.check(workload)
    reading = checked.reading
    assert [finding.rule for finding in reading.findings] == rules
    assert reading.workload
    assert reading.workload.is_placeable is is_placeable
