"""`python -m tools.docgen.packages OWNER/NAME`: wheel and chart under a repository's name.

A release runs it. dist/toposcope (the chart, made by `make chart`) gets the addresses of the
repository, and dist/krew.yaml describes dist/toposcope-krew.tar.gz, which is krew's plugin.
"""

import hashlib
import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from toposcope import __version__

ROOT: Final = Path(__file__).parents[2]
_PLACEHOLDER: Final = "OWNER/toposcope"
_KREW: Final = ROOT / "tools" / "krew"
_PROGRAM: Final = "kubectl-toposcope"
_WHEEL: Final = f"toposcope-{__version__}-py3-none-any.whl"


def address_chart(chart: Path, repository: str) -> None:
    """Put a repository's addresses, and the image that it publishes, into a copy of the chart."""
    lower = repository.lower()
    owner, _, _ = lower.partition("/")
    for name in ("Chart.yaml", "README.md", "values.yaml"):
        file = chart / name
        text = file.read_text(encoding="utf-8")
        text = text.replace(_PLACEHOLDER, repository)
        text = text.replace("ghcr.io/OWNER/", f"ghcr.io/{owner}/")
        if name == "values.yaml":
            image = f"repository: ghcr.io/{lower}\n"
            text = text.replace("repository: toposcope\n", image)
        file.write_text(text, encoding="utf-8")


def pack_plugin(dist: Path, repository: str) -> Path:
    """Make krew's archive and manifest beside the wheel; returns the manifest."""
    program = (_KREW / _PROGRAM).read_text(encoding="utf-8")
    program = program.replace("@VERSION@", __version__)
    files = {
        _PROGRAM: program.encode(),
        _WHEEL: (dist / _WHEEL).read_bytes(),
        "requirements.lock": (ROOT / "requirements.lock").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    archive = dist / "toposcope-krew.tar.gz"
    _pack(archive, files)

    version = f"v{__version__}"
    home = f"https://github.com/{repository}"
    digest = hashlib.sha256(archive.read_bytes())
    template = (_KREW / "krew.yaml").read_text(encoding="utf-8")
    plugin = yaml.load(template, yaml.CSafeLoader)
    spec = plugin["spec"]
    spec["version"] = version
    spec["homepage"] = home
    spec["platforms"][0] |= {
        "uri": f"{home}/releases/download/{version}/{archive.name}",
        "sha256": digest.hexdigest(),
        "files": [{"from": name, "to": "."} for name in files],
    }

    manifest = dist / "krew.yaml"
    text = yaml.safe_dump(plugin, sort_keys=False)
    manifest.write_text(text)
    return manifest


def _pack(archive: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into an archive, the program of them executable."""
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            if name == _PROGRAM:
                member.mode = 0o755
            tar.addfile(member, io.BytesIO(content))


def main(arguments: list[str]) -> int:
    """Do both in dist/; 2 for a repository without owner and name."""
    if len(arguments) != 1 or arguments[0].count("/") != 1:
        print("usage: python -m tools.docgen.packages OWNER/NAME", file=sys.stderr)
        return 2

    (repository,) = arguments
    dist = ROOT / "dist"
    address_chart(dist / "toposcope", repository)
    manifest = pack_plugin(dist, repository)
    print(manifest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
