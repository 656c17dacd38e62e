"""A real Prometheus scrapes both programs: every alert fires and is resolved, every panel has something to show."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.monitoring.prometheus_server import PrometheusServer
from tests.monitoring.support import alerts, as_sent, dashboard, panel_queries
from tests.monitoring.troubled_cluster import TroubledCluster
from tests.support.api import ApiUnderTest, wait_until

# Once is enough: what an API server answers is not what this is about.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_api("programs that are scraped work against what they meet in a cluster"),
]

NOBODY_THERE = {"ToposcopeNoLeader", "ToposcopeAgentDown"}
NOTHING_DONE = {
    "ToposcopeAgentDown",
    "ToposcopeControllerBehind",
    "ToposcopeLabelsStale",
    "ToposcopeProbeFailing",
    "ToposcopeUnconfined",
    "ToposcopeWatchSilent",
}
OF_THE_PAGE = {"ToposcopeGangMisplaced", "ToposcopeGangViolation"}
"""Its server is no part of the troubled cluster; the metric is tested in tests/ui, the alert by promtool."""
ALL_AT_ONCE = set(alerts()) - {"ToposcopeNoLeader", "ToposcopeControllerBehind"} - OF_THE_PAGE


def test_every_alert_fires_and_ends_and_every_panel_shows(api: ApiUnderTest, prometheus: str, tmp_path: Path) -> None:
    with (
        TroubledCluster(api, tmp_path) as cluster,
        PrometheusServer(prometheus, tmp_path / "prometheus", cluster.pods()) as server,
    ):
        become(server, NOBODY_THERE, cluster.last_words)
        cluster.start_what_is_broken()
        become(server, NOTHING_DONE, cluster.last_words)
        cluster.start_controller()
        become(server, ALL_AT_ONCE, cluster.last_words)
        every_label_in_a_text_is_there(server)
        every_panel_shows_something(server)
        cluster.mend()
        become(server, set(), cluster.last_words)
    assert set(alerts()) == NOBODY_THERE | NOTHING_DONE | ALL_AT_ONCE | OF_THE_PAGE


def become(server: PrometheusServer, wanted: set[str], last_words: Callable[[], str]) -> None:
    """Wait until these alerts fire and no others."""
    found: set[str] = set()

    def as_wanted() -> bool:
        found.clear()
        found.update(server.firing())
        return found == wanted

    try:
        wait_until(as_wanted, "the alerts are as they should be", patience=90)
    except AssertionError as error:
        missing, surplus = sorted(wanted - found), sorted(found - wanted)
        raise AssertionError(f"missing {missing}, surplus {surplus}\n{last_words()}") from error


def every_label_in_a_text_is_there(server: PrometheusServer) -> None:
    for name, alert in server.firing().items():
        rule = alerts()[name]
        for text in rule["annotations"].values():
            labels = set(re.findall(r"\$labels\.(\w+)", text))
            assert labels <= alert["labels"].keys(), name
        for text in alert["annotations"].values():
            assert "<" not in text, (name, text)  # <no value>, <error expanding template ...>


def every_panel_shows_something(server: PrometheusServer) -> None:
    queries = panel_queries()
    empty: set[str] = set()

    def complete() -> bool:
        empty.clear()
        for title, query in queries.items():
            if not server.query(query):
                empty.add(title)
        return not empty

    try:
        wait_until(complete, "every panel has something to show")  # rates need two scrapes
    except AssertionError as error:
        raise AssertionError(f"nothing to show: {sorted(empty)}") from error
    for annotation in dashboard()["annotations"]["list"]:
        assert server.query(as_sent(annotation["expr"]))
