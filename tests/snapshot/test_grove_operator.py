"""The configuration of Grove's operator, from files, from a snapshot and from a cluster."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.api import ApiUnderTest, Clients
from tests.support.saved import saved
from tests.support.tables import each_case, named_objects
from tests.support.upstream_crds import stand_in
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files
from toposcope.snapshot.live import Wanted, load_live
from toposcope.snapshot.packed import read_packed, write_packed

KUBE, KAI = "default-scheduler", "kai-scheduler"
OBJECTS = named_objects("snapshot_objects.yaml")


def config_map(default: str = "", enabled: str = "true", name: str = "grove-operator-cm-1") -> dict[str, Any]:
    made = named_objects("snapshot_objects.yaml")["grove operator"]
    made["metadata"]["name"] = name
    default = f"defaultProfileName: {default}\n  " if default else ""
    text = made["data"]["config.yaml"].replace("enabled: true", f"enabled: {enabled}")
    made["data"]["config.yaml"] = text.replace("profiles:", f"{default}profiles:")
    return made


OTHERS = {
    "broken": config_map(name="broken") | {"data": {"a": "kind: [OperatorConfiguration", "b": 1}},
    "other": config_map(name="other") | {"data": None},
}


def profiles(known: list[Any] | None) -> SchedulerProfiles | None:
    """With both schedulers, by the default one and whether it is known."""
    return SchedulerProfiles((KUBE, KAI), *known) if known else None


@each_case("tables/snapshot.yaml")
def test_of_files_and_of_a_saved_snapshot(
    maps: list[list[str]], kept: list[str], known: list[Any] | None, tmp_path: Path
) -> None:
    documents = [*(config_map(*words) for words in maps), *(OTHERS[name] for name in kept)]
    (tmp_path / "cluster.json").write_text(saved(documents))
    snapshot = load_files([str(tmp_path / "cluster.json")])
    assert snapshot.scheduler_profiles == profiles(known)
    with (tmp_path / "saved").open("wb") as out:
        write_packed(snapshot, out)
    assert read_packed(tmp_path / "saved", lambda _name, _not_ok: False).scheduler_profiles == profiles(known)


def test_of_a_cluster_that_has_grove(api: ApiUnderTest, clients: Clients) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    api.create(maps, config_map(KAI))
    api.create(maps, config_map(name="unlabelled") | {"metadata": {"name": "unlabelled"}})

    def look() -> SchedulerProfiles | None:
        return load_live(
            clients(), "s", datetime(2026, 1, 1, tzinfo=UTC), Wanted(pods=False, published=True)
        ).scheduler_profiles

    assert look() is None
    api.install_crd(stand_in("grove.io", "v1alpha1", "ClusterTopologyBinding", "clustertopologybindings"))
    assert look() == SchedulerProfiles((KUBE, KAI), KAI, True)


@pytest.mark.regression
@each_case("tables/snapshot.yaml")
def test_check_knows_who_schedules(maps: list[list[str]], rules: list[str], placeable: bool, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(saved([OBJECTS["grove binding"], *(config_map(*words) for words in maps)]))
    (checked,) = Checker(load_files([str(tmp_path / "cluster.json")])).check(OBJECTS["pod clique set"])
    assert [finding.rule for finding in checked.reading.findings] == rules
    assert checked.reading.workload
    assert checked.reading.workload.placeable is placeable
