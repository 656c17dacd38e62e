"""Schedulers of Grove that `spec.bindingSchedulers` lists: the binding names what is published for them."""

from typing import Any

import pytest
from tests.controller.published_site import (
    BINDING,
    GROVE_CRD,
    KAI_CLUSTER,
    KAI_CRD,
    KAI_ENTRY,
    KUEUE_CLUSTER,
    KUEUE_CRD,
    Site,
)
from tests.support.upstream_crds import upstream_crd
from tools.apiserver.grove_operator import GroveExitError, start_grove

pytestmark = [pytest.mark.slow, pytest.mark.regression]
GROVE_AND_KUEUE = ("grove", "kueue")
ALL = ("grove", "kai", "kueue")
KUEUE_ENTRY = {"schedulerName": "kueue", "topologyReference": "cluster"}
WITH_KUEUE = ("kai-scheduler", "kueue")
NOT_KNOWN = (
    "names no Topology of Kueue: spec.bindingSchedulers does not list kueue; list it there if Grove's operator has "
    "a profile of that name"
)


@pytest.fixture
def kueue_site(prompt_site: Site) -> Site:
    """With Grove, KAI and Kueue, and the scheduler kueue listed."""
    prompt_site.serve(KAI_CRD, KUEUE_CRD, GROVE_CRD)
    prompt_site.binding_schedulers = ("kueue",)
    return prompt_site


def set_entries(site: Site, *entries: dict[str, str]) -> None:
    site.api.patch(BINDING, {"spec": {"schedulerTopologyBindings": list(entries)}})


def annotations(site: Site) -> dict[str, str]:
    """Those of the binding."""
    found: dict[str, str] = site.api.get(BINDING)["metadata"].get("annotations") or {}
    return found


def settled(site: Site, *publishers: str) -> None:
    """Publish while Grove makes what it makes of bindings itself."""
    site.ask(*publishers)
    start_grove(site.api, WITH_KUEUE)
    site.publish(*publishers)


def test_listed_scheduler_is_named_in_the_first_write(kueue_site: Site) -> None:
    """With AutoCreate for both, Grove makes KAI's Topology alone."""
    kueue_site.ask(*ALL)
    start_grove(kueue_site.api, WITH_KUEUE, making=WITH_KUEUE)
    kueue_site.publish(*ALL)
    assert kueue_site.entries() == [KUEUE_ENTRY]
    assert annotations(kueue_site) == {"gpu.topology/names-kueue-topology": "cluster"}
    assert kueue_site.owner_kind(KUEUE_CLUSTER) == "ClusterTopology"
    assert kueue_site.owner_kind(KAI_CLUSTER) == "ClusterTopologyBinding"
    assert kueue_site.writes == ["PATCH clustertopologybindings", "PATCH topologies"]


def test_both_schedulers_when_listed_are_named(kueue_site: Site) -> None:
    """With ReferenceRequired for both, Grove makes nothing."""
    kueue_site.binding_schedulers = WITH_KUEUE
    kueue_site.ask(*ALL)
    start_grove(kueue_site.api, WITH_KUEUE, making=())
    kueue_site.publish(*ALL)
    assert kueue_site.entries() == [KAI_ENTRY, KUEUE_ENTRY]
    assert kueue_site.owner_kind(KAI_CLUSTER) == "ClusterTopology"


def test_binding_needs_no_kai_where_schedulers_are_listed(prompt_site: Site) -> None:
    prompt_site.serve(KUEUE_CRD, GROVE_CRD)
    prompt_site.binding_schedulers = ("kueue",)
    prompt_site.publish(*GROVE_AND_KUEUE)
    assert prompt_site.entries() == [KUEUE_ENTRY]


def test_scheduler_that_is_not_known_is_said(kueue_site: Site) -> None:
    kueue_site.binding_schedulers = None
    settled(kueue_site, *ALL)
    of_grove, *_ = kueue_site.publish(*ALL)
    assert of_grove.message == NOT_KNOWN
    assert kueue_site.entries() is None

    kueue_site.binding_schedulers = ()
    of_grove, *_ = kueue_site.publish(*ALL)
    assert of_grove.message == ""


def test_entry_of_somebody_else_stays(kueue_site: Site) -> None:
    kueue_site.binding_schedulers = None
    settled(kueue_site, *ALL)
    theirs = {**KUEUE_ENTRY, "topologyReference": "theirs"}
    set_entries(kueue_site, theirs)
    for schedulers in (None, (), ("kueue",)):
        kueue_site.binding_schedulers = schedulers
        kueue_site.publish(*ALL)
        assert kueue_site.entries() == [theirs]
    assert annotations(kueue_site) == {}


def test_entry_when_removed_then_is_put_back_beside_those_of_others(kueue_site: Site) -> None:
    settled(kueue_site, *ALL)
    another: dict[str, Any] = {"schedulerName": "another", "topologyReference": "theirs"}
    set_entries(kueue_site, another)
    kueue_site.publish(*ALL)
    assert kueue_site.entries() == [another, KUEUE_ENTRY]


def test_entry_goes_with_the_list(kueue_site: Site) -> None:
    settled(kueue_site, *ALL)
    kueue_site.binding_schedulers = ()
    kueue_site.publish(*ALL)
    assert (kueue_site.entries(), annotations(kueue_site)) == ([], {})


def test_entry_stays_where_the_list_is_unset(kueue_site: Site) -> None:
    """Grove might make a Topology in place of ours, and would not start."""
    settled(kueue_site, *ALL)
    kueue_site.binding_schedulers = None
    kueue_site.publish(*ALL)
    assert kueue_site.entries() == [KUEUE_ENTRY]
    start_grove(kueue_site.api, WITH_KUEUE, making=WITH_KUEUE)


def test_entry_stays_until_kueues_topology_is_gone(kueue_site: Site) -> None:
    settled(kueue_site, *ALL)
    without = {"kueue": "Never"}
    kueue_site.ask(*ALL, modes=without)
    assert kueue_site.entries() == [KUEUE_ENTRY]
    start_grove(kueue_site.api, WITH_KUEUE)
    kueue_site.ask(*ALL, modes=without)
    assert (kueue_site.entries(), kueue_site.has(KUEUE_CLUSTER)) == ([], False)
    start_grove(kueue_site.api, WITH_KUEUE, making=WITH_KUEUE)
    assert kueue_site.owner_kind(KUEUE_CLUSTER) == "ClusterTopologyBinding"


def test_what_grove_says_of_kueues_topology_is_reported(kueue_site: Site) -> None:
    kueue_site.ask("grove")
    start_grove(kueue_site.api, WITH_KUEUE)
    waiting = kueue_site.pending("grove")
    assert (waiting.reason, waiting.message) == (
        "Waiting",
        'Grove reports on Kueue\'s Topology cluster: Kueue Topology "cluster" not found',
    )


def test_grove_does_not_start_without_the_entry(kueue_site: Site) -> None:
    """The state that the list prevents."""
    settled(kueue_site, *ALL)
    set_entries(kueue_site)
    with pytest.raises(GroveExitError, match="Kueue Topology cluster is not owned by"):
        start_grove(kueue_site.api, WITH_KUEUE, making=WITH_KUEUE)


def test_listed_scheduler_that_grove_refuses_says_what_to_do(prompt_site: Site) -> None:
    prompt_site.serve(KAI_CRD, KUEUE_CRD)
    prompt_site.binding_schedulers = ("kueue",)
    crd = upstream_crd(GROVE_CRD)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    entry = spec["schedulerTopologyBindings"]["items"]["properties"]
    entry["schedulerName"]["enum"] = ["kai-scheduler"]
    prompt_site.api.install_crd(crd)
    refused = prompt_site.pending("grove")
    assert refused.reason == "Rejected"
    assert refused.message.endswith(
        "; the binding names Kueue's Topology cluster, because spec.bindingSchedulers lists kueue: "
        "add a profile kueue to Grove's operator, or remove it from the list"
    )
