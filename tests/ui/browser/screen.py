"""The parts of the page by the names that a viewer knows them by, and what a test expects of them."""

import re

from playwright.sync_api import Locator, Page, expect
from tests.ui.browser.shown import script


class Screen:
    """A page in the browser, of a server or of an exported file."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address

    def open(self, place: str = "") -> None:
        """Go to a place such as `in=zone-1/block-2&by=free`, or to the whole map."""
        address = f"{self.address}#{place}" if place else self.address
        self.page.goto(address)

    def press(self, *keys: str) -> None:
        """Press these keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        self.page.set_viewport_size({"width": width, "height": height})

    def domain(self, name: str) -> Locator:
        """A domain on the map, as `block block-1`."""
        return self.page.get_by_role("button", name=re.compile(rf"^{name}: "))

    def node(self, name: str) -> Locator:
        """A node on the map."""
        return self.domain(f"node {name}")

    def chip(self, name: str) -> Locator:
        """What shows only one kind of nodes."""
        chips = self.page.get_by_role("group", name="Show only")
        return chips.get_by_role("button", name=name)

    def button(self, name: str) -> Locator:
        """A button by its text."""
        return self.page.get_by_role("button", name=name)

    def tab(self, name: str) -> Locator:
        """A tab beside the map."""
        return self.page.get_by_role("tab", name=name)

    def heading(self, name: str) -> Locator:
        """The heading of a node."""
        return self.page.get_by_role("heading", name=name, level=2)

    @property
    def panel(self) -> Locator:
        """What the chosen tab shows."""
        return self.page.get_by_role("tabpanel")

    @property
    def alert(self) -> Locator:
        """What the page warns of."""
        return self.page.get_by_role("alert")

    @property
    def conditions(self) -> Locator:
        """The banner of conditions."""
        return self.page.get_by_role("region", name="Conditions that are not True")

    @property
    def colour_by(self) -> Locator:
        """The choice of what colours nodes."""
        return self.page.get_by_role("combobox", name="Colour by")

    @property
    def topology(self) -> Locator:
        """The choice of a topology."""
        return self.page.get_by_role("combobox", name="Topology or segment")

    @property
    def search(self) -> Locator:
        """The search box."""
        return self.page.get_by_role("combobox", name=re.compile("^Search"))

    @property
    def path(self) -> Locator:
        """Where the viewer is."""
        return self.page.get_by_role("navigation", name="Breadcrumb")

    @property
    def theme(self) -> Locator:
        """What has the theme of the page as its attribute."""
        return self.page.locator("html")

    def tone(self, name: str) -> str:
        """A colour of the page's style by its name, as `--health-ok`."""
        return tone(self.page, name)

    def expect_address(self, place: str) -> None:
        """The viewer is at this place."""
        expect(self.page).to_have_url(f"{self.address}#{place}")

    def expect_node(self, name: str, words: str) -> None:
        """A node on the map says these words."""
        expect(self.node(name)).to_have_accessible_name(re.compile(words))

    def expect_domain(self, name: str, words: str) -> None:
        """A domain on the map says these words."""
        expect(self.domain(name)).to_have_accessible_name(re.compile(words))

    def expect_theme(self, name: str) -> None:
        """The page is light or dark."""
        expect(self.theme).to_have_attribute("data-theme", name)


def click_head(page: Page, of: Locator) -> None:
    """Click where the name of a domain is drawn."""
    box = of.bounding_box()
    assert box
    page.mouse.click(box["x"] + 30, box["y"] + 10)


def click_on(page: Page, of: Locator) -> None:
    """Click in the middle of something that is drawn."""
    box = of.bounding_box()
    assert box
    across = box["x"] + box["width"] / 2
    down = box["y"] + box["height"] / 2
    page.mouse.click(across, down)


def colours_of(of: Locator) -> list[str]:
    """The colours that the canvas has under a button, the most frequent first."""
    found: list[str] = of.evaluate(script("colours"))
    return found


def tone(page: Page, name: str) -> str:
    """A colour of the page's style by its name."""
    style = "getComputedStyle(document.documentElement)"
    value: str = page.evaluate(f"name => {style}.getPropertyValue(name).trim()", name)
    return value
