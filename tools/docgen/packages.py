"""`python -m tools.docgen.packages OWNER/NAME`.

What a release makes of wheel and chart under its repository's name.

dist/toposcope (the chart, made by `make chart`) gets the addresses of the repository, and
dist/krew.yaml describes dist/toposcope-krew.tar.gz, which is krew's plugin.
"""

import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Final

import yaml

from toposcope import __version__

ROOT: Final = Path(__file__).parents[2]
_PLACEHOLDER: Final = "OWNER/toposcope"
_KREW: Final = ROOT / "tools" / "krew"
_WHEEL: Final = f"toposcope-{__version__}-py3-none-any.whl"


def address_chart(chart: Path, repository: str) -> None:
    """Put a repository's addresses, and the image that it publishes, into a copy of the chart."""
    owner = repository.partition("/")[0].lower()
    image = f"repository: ghcr.io/{repository.lower()}\n"
    for name in ("Chart.yaml", "README.md", "values.yaml"):
        file = chart / name
        text = file.read_text(encoding="utf-8")
        text = text.replace(_PLACEHOLDER, repository)
        text = text.replace("ghcr.io/OWNER/", f"ghcr.io/{owner}/")
        if name == "values.yaml":
            text = text.replace("repository: toposcope\n", image)
        file.write_text(text, encoding="utf-8")


def pack_plugin(dist: Path, repository: str) -> Path:
    """Make krew's archive and manifest beside the wheel; returns the manifest."""
    program = (_KREW / "kubectl-toposcope").read_text(encoding="utf-8")
    files = {
        "kubectl-toposcope": program.replace("@VERSION@", __version__).encode(),
        _WHEEL: (dist / _WHEEL).read_bytes(),
        "requirements.lock": (ROOT / "requirements.lock").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    archive = dist / "toposcope-krew.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            if name == "kubectl-toposcope":
                member.mode = 0o755
            tar.addfile(member, io.BytesIO(content))
    home = f"https://github.com/{repository}"
    digest = hashlib.sha256(archive.read_bytes())
    plugin = yaml.safe_load((_KREW / "krew.yaml").read_text(encoding="utf-8"))
    spec = plugin["spec"]
    spec["version"] = f"v{__version__}"
    spec["homepage"] = home
    spec["platforms"][0] |= {
        "uri": f"{home}/releases/download/v{__version__}/{archive.name}",
        "sha256": digest.hexdigest(),
        "files": [{"from": name, "to": "."} for name in files],
    }
    manifest = dist / "krew.yaml"
    manifest.write_text(yaml.safe_dump(plugin, sort_keys=False))
    return manifest


def main(arguments: list[str]) -> int:
    """Do both in dist/; 2 for a repository without owner and name."""
    if len(arguments) != 1 or arguments[0].count("/") != 1:
        print("usage: python -m tools.docgen.packages OWNER/NAME", file=sys.stderr)
        return 2
    address_chart(ROOT / "dist" / "toposcope", arguments[0])
    print(pack_plugin(ROOT / "dist", arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
