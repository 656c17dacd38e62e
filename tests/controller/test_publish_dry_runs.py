"""Dry runs of publishers: what would be written, and that nothing is."""

import pytest
from tests.controller.published_site import (
    BINDING,
    FOUR_LEVELS,
    GROVE_CRD,
    KAI_CLUSTER,
    KAI_CRD,
    KAI_ENTRY,
    KUEUE_CLUSTER,
    KUEUE_CRD,
    Site,
)
from tests.support.publishing import THREE
from tests.support.tables import says
from toposcope.integrations.framework.published import Published

pytestmark = pytest.mark.regression
WITHOUT_GROVE = {"grove": "Never"}
WITHOUT_KAI = {"kai": "Never"}
WITHOUT_KUEUE = {"kueue": "Never"}
CREATED_DIFF = (
    "*+  name: cluster\n"
    "*: topology.kubernetes.io/zone\n"
    "*: cloud.google.com/gce-topology-block\n"
    "*: cloud.google.com/gce-topology-subblock\n"
    "*: kubernetes.io/hostname\n"
    "*"
)


def shown(outcome: Published | None) -> Published:
    """What a dry run shows, where it shows a difference."""
    assert outcome is not None
    assert not outcome.is_in_sync
    return outcome


@pytest.mark.parametrize(
    ("publisher", "crds", "modes", "path", "kind"),
    [
        pytest.param("grove", (GROVE_CRD, KAI_CRD), {}, BINDING, "ClusterTopologyBinding", id="grove"),
        pytest.param("kai", (KAI_CRD,), WITHOUT_GROVE, KAI_CLUSTER, "Topology", id="kai"),
        pytest.param("kueue", (KUEUE_CRD,), {}, KUEUE_CLUSTER, "Topology", id="kueue"),
    ],
)
def test_dry_run_shows_what_it_would_create(
    site: Site,
    *,
    publisher: str,
    crds: tuple[str, ...],
    modes: dict[str, str],
    path: str,
    kind: str,
) -> None:
    site.serve(*crds)
    outcome = shown(site.dry_run(publisher, modes=modes))
    assert outcome.reason == "DryRun"
    assert says(outcome.message, "would create:*")
    assert says(outcome.diff, CREATED_DIFF)
    assert not site.has(path)
    assert site.writes == []

    # The real thing, after which there is nothing to show.
    site.publish(publisher, modes=modes)
    after = site.dry_run(publisher, modes=modes)
    assert after is not None
    assert after.is_in_sync
    assert after.kind == kind


def test_dry_run_of_a_change_in_place_shows_the_lines_that_change(site: Site) -> None:
    site.serve(GROVE_CRD, KAI_CRD)
    site.publish("grove")
    before = site.api.get(BINDING)
    outcome = shown(site.dry_run("grove", levels=THREE))
    assert says(outcome.message, "would change:*")
    assert says(
        outcome.diff,
        "--- live/grove.io/v1alpha1/clustertopologybindings/cluster\n"
        "+++ wanted/grove.io/v1alpha1/clustertopologybindings/cluster\n"
        "*\n"
        "-  - domain: block\n"
        "-    key: cloud.google.com/gce-topology-block\n"
        " *",
    )
    assert site.api.get(BINDING) == before
    assert site.writes == ["PATCH clustertopologybindings"]


@pytest.mark.real_api("immutability is a CEL rule")
def test_dry_run_of_what_cannot_be_changed_shows_it_made_anew(site: Site) -> None:
    site.serve(KAI_CRD)
    site.publish("kai", modes=WITHOUT_GROVE)
    before = site.api.get(KAI_CLUSTER)
    outcome = shown(site.dry_run("kai", levels=THREE, modes=WITHOUT_GROVE))
    assert says(outcome.message, "would delete and create again:*")
    assert "\n-  - nodeLabel: cloud.google.com/gce-topology-block\n" in outcome.diff
    assert site.api.get(KAI_CLUSTER) == before

    site.hold(KAI_CLUSTER, "example.com/keep")
    outcome = shown(site.dry_run("kai", levels=THREE, modes=WITHOUT_GROVE))
    assert says(
        outcome.message, "would wait: waits to be deleted to get the levels*still held by finalizer example.com/keep"
    )
    assert site.levels(KAI_CLUSTER) == FOUR_LEVELS


@pytest.mark.real_api("limits of a list")
def test_dry_run_shows_what_would_be_refused(site: Site) -> None:
    site.serve(KAI_CRD)
    site.serve_narrowed(GROVE_CRD, most_levels=3)
    outcome = shown(site.dry_run("grove"))
    assert outcome.reason == "DryRun"
    assert says(outcome.message, "would not be written: *must have at most 3 items*")


def test_dry_run_of_never_shows_that_ours_would_be_deleted(site: Site) -> None:
    site.serve(KUEUE_CRD)
    assert site.dry_run("kueue", modes=WITHOUT_KUEUE) is None
    site.publish("kueue")
    before = site.api.get(KUEUE_CLUSTER)
    outcome = shown(site.dry_run("kueue", modes=WITHOUT_KUEUE))
    assert outcome.handle == "topology.kueue.x-k8s.io/cluster"
    assert says(outcome.message, "would delete:*")
    assert site.api.get(KUEUE_CLUSTER) == before
    assert site.writes == ["PATCH topologies"]


def test_dry_run_shows_the_entry_for_kais_topology(prompt_site: Site) -> None:
    site = prompt_site
    site.serve(KAI_CRD)
    site.publish("grove", "kai")
    site.serve(GROVE_CRD)
    outcome = shown(site.dry_run("grove"))
    assert says(outcome.message, "would create:*")
    entry = "+  schedulerTopologyBindings:\n+  - schedulerName: kai-scheduler\n+    topologyReference: cluster"
    assert entry in outcome.diff
    assert not site.has(BINDING)
    assert site.owner_kind(KAI_CLUSTER) == "ClusterTopology"

    # One that is only compared stays, and is named all the same.
    site.publish("grove", modes={"kai": "DryRun"})
    assert site.entries() == [KAI_ENTRY]
    retracting = site.dry_run("grove", modes=WITHOUT_KAI)
    assert says(
        shown(retracting).diff,
        "*-  - nodeLabel: cloud.google.com/gce-topology-block*-  - schedulerName: kai-scheduler*",
    )
    assert site.entries() == [KAI_ENTRY]
    assert site.levels(KAI_CLUSTER) == FOUR_LEVELS
