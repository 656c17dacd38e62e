"""A hook of MkDocs: adds what pages link to from outside docs/, and makes links fit both places.

MkDocs loads this file by its path. Pages link as GitHub wants it (`../manifests/...`); on the site
what they link to lies under `source/`, Markdown as a page and everything else as text. A link to
nothing is left as it is, so that `mkdocs build --strict` stumbles over it.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File

ROOT: Final = Path(__file__).parents[2]
_DOCS: Final = "docs/"
_SOURCE: Final = "source/"
_ALWAYS: Final = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "manifests/components/README.md",
)
"""Files that the navigation names."""
_MERMAID: Final = ROOT / "tools/docgen/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js"
"""`make docs` installs it; the theme would load it from a CDN."""
_LINK: Final = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def on_files(files: Any, config: Any) -> Any:
    """Add what pages link to, what those link to, and the program that draws the diagrams."""
    mermaid = File.generated(config, "mermaid.js", abs_src_path=str(_MERMAID))
    files.append(mermaid)
    linked: set[str] = set()
    for page in files.documentation_pages():
        path = _in_repository(page.src_uri)
        linked.update(_linked(path, page.content_string))

    waiting = [*_ALWAYS, *sorted(linked)]
    added: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in added or path.startswith(_DOCS):
            continue
        added.add(path)
        text = (ROOT / path).read_text(encoding="utf-8")
        file = File.generated(config, _on_site(path), content=text)
        files.append(file)
        if path.endswith(".md"):
            waiting += _linked(path, text)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with its links to files of the repository as they are on the site."""
    at = _in_repository(page.file.src_uri)
    folder = posixpath.dirname(page.file.src_uri)

    def fitted(match: re.Match[str]) -> str:
        opening, link, fragment, closing = match.groups()
        path = _resolved(at, link)
        if path is None:
            return match[0]
        page = _on_site(path)
        target = posixpath.relpath(page, folder or ".")
        anchor = fragment or ""
        return f"{opening}{target}{anchor}{closing}"

    return _LINK.sub(fitted, markdown)


def _linked(at: str, text: str) -> Iterator[str]:
    for _, target, _, _ in _LINK.findall(text):
        path = _resolved(at, target)
        if path is not None:
            yield path


def _resolved(at: str, target: str) -> str | None:
    """The file of the repository that a link in the file `at` leads to.

    None where the link leads elsewhere.
    """
    if ":" in target or target.startswith("/"):
        return None
    folder = posixpath.dirname(at)
    path = posixpath.normpath(posixpath.join(folder, target))
    if path.startswith("..") or not (ROOT / path).is_file():
        return None
    return path


def _in_repository(uri: str) -> str:
    """The path of a page of the site in the repository."""
    if not uri.startswith(_SOURCE):
        return _DOCS + uri
    path = uri.removeprefix(_SOURCE)
    return path if (ROOT / path).is_file() else path.removesuffix(".md") + "/README.md"


def _on_site(path: str) -> str:
    """The path of a file of the repository on the site."""
    if path.startswith(_DOCS):
        return path.removeprefix(_DOCS)
    # A README would become the index of its section.
    page = path.removesuffix("/README.md") + ".md" if path.endswith("/README.md") else path
    return _SOURCE + page + ("" if path.endswith(".md") else ".txt")
