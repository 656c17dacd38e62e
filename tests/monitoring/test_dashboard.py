"""The dashboard: every query parsed by promtool and about documented metrics, every panel in a place of its own."""

import itertools
import re
from pathlib import Path

from tests.monitoring import support

WIDTH = 24


def test_promtool_parses_every_query(promtool: str, tmp_path: Path) -> None:
    annotations = [support.as_sent(annotation["expr"]) for annotation in support.dashboard()["annotations"]["list"]]
    support.parsed_by(promtool, [*support.panel_queries().values(), *annotations], tmp_path)


def test_every_metric_is_documented() -> None:
    used = {name for query in support.panel_queries().values() for name in support.metrics_in(query)}
    assert used <= support.documented_metrics()


def test_no_variable_is_left_unfilled() -> None:
    known = {f"${{{variable['name']}}}" for variable in support.dashboard()["templating"]["list"]}
    assert not [query for query in support.panel_queries().values() if "$" in query]
    assert {panel["datasource"]["uid"] for panel in support.panels()} == {"${datasource}"} <= known
    assert {target["datasource"]["uid"] for panel in support.panels() for target in panel["targets"]} == {
        "${datasource}"
    }
    (topology,) = (variable for variable in support.dashboard()["templating"]["list"] if variable["type"] == "query")
    assert support.metrics_in(topology["definition"]) <= support.documented_metrics()


def test_panels_have_numbers_and_places_of_their_own() -> None:
    every = support.dashboard()["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    taken: list[tuple[int, int]] = []
    for at in (panel["gridPos"] for panel in every):
        taken += itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"]))
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < WIDTH


def test_every_panel_says_what_it_shows() -> None:
    titles = [panel["title"] for panel in support.panels()]
    assert len(set(titles)) == len(titles)
    assert not [panel["title"] for panel in support.panels() if not panel["description"].endswith(".")]


def test_renamed_columns_are_columns_of_their_queries() -> None:
    """A table with several queries shows each as `Value #A`, `Value #B` ..."""
    for panel in support.panels():
        columns = {f"Value #{target['refId']}" for target in panel["targets"]}
        for step in panel.get("transformations", []):
            named = {name for name in step["options"].get("renameByName", {}) if name.startswith("Value #")}
            assert named in (set(), columns)


def test_what_alerts_ask_is_shown_too() -> None:
    """Who is woken by an alert about a topology finds its metrics on the dashboard."""
    shown = {name for query in support.panel_queries().values() for name in support.metrics_in(query)}
    asked = {name for rule in support.alerts().values() for name in support.metrics_in(rule["expr"])}
    assert {name for name in asked if re.match(r"toposcope_(level|topology|published|condition)_?", name)} <= shown
