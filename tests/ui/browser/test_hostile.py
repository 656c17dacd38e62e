"""Whatever a cluster says is shown as text: Chromium, under the page's own Content-Security-Policy, is the judge.

Names of nodes are refused when they are read: no API server has such ones. The page takes them all the same.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.support.saved import demo_nodes
from tests.ui.browser.hostile import BREAKOUT, hostile
from tests.ui.browser.screen import Screen
from tests.ui.browser.shown import SCRIPTS, Shown, script, shown
from toposcope.ui import protocol
from toposcope.ui.bundle import Bundle
from toposcope.ui.export import written

pytestmark = pytest.mark.slow

_FIELD = re.compile(r"\[([A-Z]\w+\.\w+(?: key)?)\]")
"""The name of a field, with which each of its texts begins."""
UNSEEN = {
    **dict.fromkeys(("ConditionView.since", "Since.at", "Status.as_of"), "a time: anything else is dropped"),
    **dict.fromkeys(("FindingData.rule", "Lacking.level"), "tells entries of a list apart"),
    **dict.fromkeys(("SnapshotData.id", "SnapshotData.placeholders", "ViewData.parent"), "only compared"),
    "DeviceData.nics": "labels of rows, only compared",
    "NodeData.shares key": "the name of a resource, only looked up",
    "NodeData.marks": "the page has its own word for each that it knows, and `unknown` for others",
}
"""Texts that the page receives and shows nowhere, each with the reason."""


class Judged:
    """A page, what its browser refused or ran, and which fields it has shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.verdicts: list[str] = []
        self.seen: set[str] = set()
        # Playwright marks the function that it is given: it takes no method.
        page.expose_function("judge", lambda verdict: self.verdicts.append(verdict))  # noqa: PLW0108
        page.add_init_script(path=SCRIPTS / "judge.js")
        page.on("dialog", lambda dialog: self.verdicts.append(dialog.message))
        page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "file:", "data:")):
            self.verdicts.append(f"asked for {url}")

    def look(self) -> None:
        """Note what is shown now."""
        written_into = self.page.evaluate("window.written")
        text = self.page.content() + written_into
        self.seen.update(_FIELD.findall(text))
        self.verdicts += self.page.evaluate(script("foreign"))


@pytest.fixture
def judged(page: Page) -> Judged:
    return Judged(page)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The page with its policy, for answers that a test puts in its place, or for its own."""
    folder = tmp_path_factory.mktemp("hostile")
    with shown(folder, demo_nodes(most=1)) as found:
        yield found


def _answer(route: Route) -> None:
    """What the server would."""
    _, _, address = route.request.url.partition("/api/")
    if address.startswith("events"):
        news = _json(protocol.News)
        route.fulfill(body=f"data: {news}\n\n", content_type="text/event-stream")
        return
    kind = _kind_of_answer(address)
    body = _json(kind, matrix=None) if address == "node/bare" else _json(kind)
    route.fulfill(
        body=body,
        content_type="application/json",
        status=404 if kind is protocol.ErrorAnswer else 200,
    )


def _kind_of_answer(address: str) -> type:
    kinds = {
        "snapshot": protocol.SnapshotData,
        "node/missing": protocol.ErrorAnswer,
        "node": protocol.NodeData,
        "search": protocol.SearchAnswer,
        "check": protocol.CheckAnswer,
    }
    for start, kind in kinds.items():
        if address.startswith(start):
            return kind
    raise AssertionError(f"nobody answers {address}")


def _json(kind: type, **changed: Any) -> str:
    made = hostile(kind)
    if isinstance(made, protocol.NodeData):
        # What its resources are shares of, and what others are.
        (described,) = made.shares.values()
        shares = dict.fromkeys(made.resources, described)
        made.shares.update(shares)
    answer = msgspec.structs.replace(made, **changed)
    return msgspec.json.encode(answer).decode()


def _walk(judged: Judged, address: str, *, live: bool) -> None:
    """Everywhere on the page."""
    screen = Screen(judged.page, address)
    screen.open()
    expect(screen.conditions).to_contain_text("[ConditionView.message]")
    judged.look()
    _point_at_everything(judged)
    for lens in ("product", "shape", "coverage"):
        screen.colour_by.select_option(lens)
        judged.look()
    _search(judged, screen, live=live)
    for name in ("Changes", "Check"):
        screen.tab(name).click()
        judged.look()
    if live:
        _check(judged, screen)
    _look_at_node(judged, screen, hostile(str, "Nodes.name"), "[NodeData.reasons]")
    if live:
        _look_at_node(judged, screen, "bare", "[NodeData.problem]")
        _look_at_node(judged, screen, "missing", "[ErrorAnswer.error]")
    screen.resize(390, 844)
    judged.page.goto(f"{address}#")
    judged.look()
    summary = screen.conditions.locator("summary")
    summary.click()
    judged.look()


def _point_at_everything(judged: Judged) -> None:
    """Move the pointer over the map."""
    frame = judged.page.locator(".map").bounding_box()
    assert frame
    for across in range(1, 12):
        x = frame["x"] + frame["width"] * across / 12
        for down in range(1, 8):
            y = frame["y"] + frame["height"] * down / 8
            judged.page.mouse.move(x, y)
        judged.look()


def _search(judged: Judged, screen: Screen, *, live: bool) -> None:
    """Search, and follow what is found first."""
    screen.search.fill("img")
    results = judged.page.get_by_role("listbox")
    first = results.get_by_role("option").first
    expect(first).to_contain_text("<img")
    field = "[GpuHit.uuid]" if live else "[DeviceData.name]"
    option = judged.page.get_by_role("option").filter(has_text=field)
    expect(option).to_be_visible()
    judged.look()
    screen.press("Enter")


def _check(judged: Judged, screen: Screen) -> None:
    """Have a workload checked."""
    box = judged.page.get_by_label("Would it fit?")
    box.fill("kind: Pod")
    button = screen.panel.get_by_role("button", name="Check", exact=True)
    button.click()
    expect(screen.panel).to_contain_text("[SystemAnswer.answer]")
    judged.look()


def _look_at_node(judged: Judged, screen: Screen, name: str, text: str) -> None:
    """Look at a node, which is there once the page shows a text."""
    screen.open(f"node={quote(name)}")
    main = judged.page.get_by_role("main")
    expect(main).to_contain_text(text)
    judged.look()


def _texts() -> set[str]:
    """The fields of the protocol that hold text."""
    kinds: list[type] = [
        protocol.News,
        protocol.SnapshotData,
        protocol.NodeData,
        protocol.SearchAnswer,
        protocol.CheckAnswer,
        protocol.ErrorAnswer,
    ]
    fields: set[str] = set()
    for kind in kinds:
        fields.update(_FIELD.findall(_json(kind)))
    return fields


def test_every_text_that_a_server_sends_is_shown_as_text(judged: Judged, server: Shown) -> None:
    judged.page.route("**/api/**", _answer)
    _walk(judged, server.address, live=True)
    assert judged.verdicts == []
    unseen = _texts() - judged.seen
    assert unseen == UNSEEN.keys(), "show a new field, or say why it is not shown"


def test_every_text_in_an_exported_file_is_shown_as_text(judged: Judged, tmp_path: Path) -> None:
    exported = hostile(protocol.Export)
    report = tmp_path / "report.html"
    report.write_text(written(exported, Bundle()), encoding="utf-8")
    _walk(judged, report.as_uri(), live=False)
    assert judged.verdicts == []


@pytest.mark.parametrize(
    "address", ["api/node/{}", "api/search?q={}", "{}", "assets/{}"], ids=["node", "search", "page", "asset"]
)
def test_answer_opened_by_itself_is_no_page(judged: Judged, server: Shown, address: str) -> None:
    text = quote(BREAKOUT, safe="")
    place = address.format(text)
    judged.page.goto(server.address + place)
    elements = judged.page.locator("img, svg, a")
    assert elements.count() == 0
    assert judged.verdicts == []


def test_nothing_runs_from_a_link(judged: Judged, server: Shown) -> None:
    text = quote(BREAKOUT, safe="")
    screen = Screen(judged.page, server.address)
    screen.open(f"view={text}&in={text}/{text}&node={text}&by={text}&only={text}")
    heading = judged.page.get_by_role("heading", level=2)
    expect(heading).to_contain_text("<img")
    judged.look()
    assert judged.verdicts == []


def test_judge_sees_what_a_page_lets_in(browser: Browser, server: Shown) -> None:
    insert = "text => document.body.insertAdjacentHTML('beforeend', text)"
    with browser.new_context() as context:
        page = context.new_page()
        judged = Judged(page)
        page.goto(server.address)
        page.evaluate(insert, f"<p>{BREAKOUT}")
        judged.look()
        page.wait_for_timeout(0)
        assert any("<img" in verdict for verdict in judged.verdicts)
        assert any("refused script-src-attr" in verdict for verdict in judged.verdicts)
