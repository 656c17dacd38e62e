"""The dashboard: every query parsed by promtool and about documented metrics, every panel in a place of its own."""

import itertools
import re
from pathlib import Path

from tests.monitoring import support

WIDTH = 24


def test_promtool_parses_every_query(promtool: str, tmp_path: Path) -> None:
    queries = list(support.panel_queries().values())
    annotations = support.dashboard()["annotations"]
    for annotation in annotations["list"]:
        query = support.as_sent(annotation["expr"])
        queries.append(query)
    support.parsed_by(promtool, queries, tmp_path)


def shown_metrics() -> set[str]:
    """Our metrics in all queries of the dashboard."""
    shown = set()
    for query in support.panel_queries().values():
        shown |= support.metrics_in(query)
    return shown


def test_every_metric_is_documented() -> None:
    assert shown_metrics() <= support.documented_metrics()


def test_no_variable_is_left_unfilled() -> None:
    for title, query in support.panel_queries().items():
        assert "$" not in query, title


def test_every_panel_asks_the_datasource_of_the_dashboard() -> None:
    templating = support.dashboard()["templating"]
    names = [variable["name"] for variable in templating["list"]]
    assert "datasource" in names
    for panel in support.panels():
        source = panel["datasource"]
        assert source["uid"] == "${datasource}"
        for target in panel["targets"]:
            source = target["datasource"]
            assert source["uid"] == "${datasource}"


def test_topologies_to_choose_from_come_from_a_documented_metric() -> None:
    templating = support.dashboard()["templating"]
    queries = []
    for variable in templating["list"]:
        if variable["type"] == "query":
            queries.append(variable["definition"])
    (query,) = queries
    asked = support.metrics_in(query)
    assert asked <= support.documented_metrics()


def test_panels_have_numbers_of_their_own() -> None:
    panels = support.dashboard()["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in support.dashboard()["panels"]:
        title = panel["title"]
        place = panel["gridPos"]
        left = place["x"]
        right = left + place["w"]
        top = place["y"]
        bottom = top + place["h"]
        cells = set(itertools.product(range(left, right), range(top, bottom)))
        assert taken.isdisjoint(cells), title
        assert right <= WIDTH, title
        taken |= cells


def test_every_panel_says_what_it_shows() -> None:
    panels = support.panels()
    titles = {panel["title"] for panel in panels}
    assert len(titles) == len(panels)
    for panel in panels:
        description = panel["description"]
        assert description.endswith("."), panel["title"]


def test_renamed_columns_are_columns_of_their_queries() -> None:
    """A table with several queries shows each as `Value #A`, `Value #B` ..."""
    for panel in support.panels():
        columns = set()
        for target in panel["targets"]:
            columns.add(f"Value #{target['refId']}")
        for step in panel.get("transformations", []):
            renamed = step["options"].get("renameByName", {})
            values = set()
            for name in renamed:
                if name.startswith("Value #"):
                    values.add(name)
            assert values in (set(), columns), panel["title"]


def test_metrics_of_alerts_are_on_the_dashboard() -> None:
    """Who is woken by an alert about a topology finds its metrics on the dashboard."""
    shown = shown_metrics()
    for alert, rule in support.alerts().items():
        for name in support.metrics_in(rule["expr"]):
            if re.match(r"toposcope_(level|topology|published|condition)_?", name):
                assert name in shown, alert
