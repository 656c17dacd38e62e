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
from tests.ui.browser.shown import SCRIPTS, Shown, script, shown
from toposcope.ui import protocol
from toposcope.ui.bundle import Bundle
from toposcope.ui.export import written

pytestmark = pytest.mark.slow

UNSEEN = {
    **dict.fromkeys(("ConditionView.since", "Since.at", "Status.as_of"), "a time: anything else is dropped"),
    **dict.fromkeys(("Finding.rule", "Lacking.level"), "tells entries of a list apart"),
    **dict.fromkeys(("Snapshot.id", "Snapshot.placeholders", "View.parent"), "only compared"),
    "Device.nics": "labels of rows, only compared",
    "Node.shares key": "the name of a resource, only looked up",
    "Node.marks": "the page has its own word for each that it knows, and `unknown` for others",
}
"""Texts that the page receives and shows nowhere, each with the reason."""


class Judged:
    """A page, what its browser refused or ran, and which fields it has shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.verdicts: list[str] = []
        self.seen: set[str] = set()
        page.expose_function("judge", lambda verdict: self.verdicts.append(verdict))  # noqa: PLW0108 - Playwright marks it
        page.add_init_script(path=SCRIPTS / "judge.js")
        page.on("dialog", lambda dialog: self.verdicts.append(dialog.message))
        page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "file:", "data:")):
            self.verdicts.append(f"asked for {url}")

    def look(self) -> None:
        """Note what is shown now."""
        text = self.page.content() + self.page.evaluate("window.written")
        self.seen |= set(re.findall(r"\[([A-Z]\w+\.\w+(?: key)?)\]", text))
        self.verdicts += self.page.evaluate(script("foreign"))


@pytest.fixture
def judged(page: Page) -> Judged:
    return Judged(page)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The page with its policy, for answers that a test puts in its place, or for its own."""
    with shown(tmp_path_factory.mktemp("hostile"), demo_nodes(most=1)) as found:
        yield found


def _answer(route: Route) -> None:
    """What the server would."""
    address = route.request.url.partition("/api/")[2]
    answers = {
        "snapshot": protocol.Snapshot,
        "node/missing": protocol.Problem,
        "node": protocol.Node,
        "search": protocol.Search,
        "check": protocol.CheckAnswer,
    }
    if address.startswith("events"):
        route.fulfill(body=f"data: {_json(protocol.News)}\n\n", content_type="text/event-stream")
        return
    kind = next(kind for start, kind in answers.items() if address.startswith(start))
    body = _json(kind, matrix=None) if address == "node/bare" else _json(kind)
    route.fulfill(body=body, content_type="application/json", status=404 if kind is protocol.Problem else 200)


def _json(kind: type, **changed: Any) -> str:
    made = hostile(kind)
    if isinstance(made, protocol.Node):
        # What its resources are shares of, and what others are.
        (described,) = made.shares.values()
        made.shares.update(dict.fromkeys(made.resources, described))
    return msgspec.json.encode(msgspec.structs.replace(made, **changed)).decode()


def _walk(judged: Judged, address: str, *, live: bool) -> None:
    """Everywhere on the page."""
    page = judged.page
    page.goto(address)
    expect(page.get_by_role("region", name="Conditions that are not True")).to_contain_text("[ConditionView.message]")
    judged.look()
    frame = page.locator(".map").bounding_box()
    assert frame
    for across in range(1, 12):
        for down in range(1, 8):
            page.mouse.move(frame["x"] + frame["width"] * across / 12, frame["y"] + frame["height"] * down / 8)
        judged.look()
    for lens in ("product", "shape", "coverage"):
        page.get_by_role("combobox", name="Colour by").select_option(lens)
        judged.look()
    page.get_by_role("combobox", name="Search").fill("img")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text("<img")
    expect(page.get_by_role("option").filter(has_text="[Gpu.uuid]" if live else "[Device.name]")).to_be_visible()
    judged.look()
    page.keyboard.press("Enter")
    for tab in ("Changes", "Check"):
        page.get_by_role("tab", name=tab).click()
        judged.look()
    if live:
        page.get_by_label("Would it fit?").fill("kind: Pod")
        page.get_by_role("tabpanel").get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_role("tabpanel")).to_contain_text("[Check.answer]")
        judged.look()
    nodes = {hostile(str, "Nodes.name"): "[Node.reasons]", "bare": "[Node.problem]", "missing": "[Problem.error]"}
    for name, text in nodes.items() if live else [*nodes.items()][:1]:
        page.goto(f"{address}#node={quote(name)}")
        expect(page.get_by_role("main")).to_contain_text(text)
        judged.look()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}#")
    judged.look()
    page.get_by_role("region", name="Conditions that are not True").locator("summary").click()
    judged.look()


def _texts() -> set[str]:
    """The fields of the protocol that hold text."""
    kinds = protocol.News, protocol.Snapshot, protocol.Node, protocol.Search, protocol.CheckAnswer, protocol.Problem
    return set(re.findall(r"\[([A-Z]\w+\.\w+(?: key)?)\]", "".join(map(_json, kinds))))


def test_every_text_that_a_server_sends_is_shown_as_text(judged: Judged, server: Shown) -> None:
    judged.page.route("**/api/**", _answer)
    _walk(judged, server.address, live=True)
    assert judged.verdicts == []
    assert _texts() - judged.seen == UNSEEN.keys(), "show a new field, or say why it is not shown"


def test_every_text_in_an_exported_file_is_shown_as_text(judged: Judged, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text(written(hostile(protocol.Export), Bundle()), encoding="utf-8")
    _walk(judged, report.as_uri(), live=False)
    assert judged.verdicts == []


@pytest.mark.parametrize("address", ["api/node/{}", "api/search?q={}", "{}", "assets/{}"])
def test_answer_opened_by_itself_is_no_page(judged: Judged, server: Shown, address: str) -> None:
    judged.page.goto(server.address + address.format(quote(BREAKOUT, safe="")))
    assert judged.page.locator("img, svg, a").count() == 0
    assert judged.verdicts == []


def test_nothing_runs_from_a_link(judged: Judged, server: Shown) -> None:
    text = quote(BREAKOUT, safe="")
    judged.page.goto(f"{server.address}#view={text}&in={text}/{text}&node={text}&by={text}&only={text}")
    expect(judged.page.get_by_role("heading", level=2)).to_contain_text("<img")
    judged.look()
    assert judged.verdicts == []


def test_judge_sees_what_a_page_lets_in(browser: Browser, server: Shown) -> None:
    with browser.new_context() as context:
        judged = Judged(context.new_page())
        judged.page.goto(server.address)
        judged.page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", f"<p>{BREAKOUT}")
        judged.look()
        judged.page.wait_for_timeout(0)
        assert any("<img" in verdict for verdict in judged.verdicts)
        assert any("refused script-src-attr" in verdict for verdict in judged.verdicts)
