"""One version, a changelog that a release can be made of, and workflows that say exactly what they run."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.paths import ROOT
from tools.docgen.release import CHANGELOG, NoReleaseError, main, notes
from toposcope import __version__

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
HEADINGS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
RELEASED = f"""# Changelog

## [Unreleased]

## [{__version__}] - 2026-12-01

### Added

- Everything.

## [0.0.1] - 2026-01-01

### Added

- Less.
"""


def test_version_is_a_semantic_one_and_the_same_everywhere() -> None:
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?", __version__)
    base = (ROOT / "manifests" / "base" / "kustomization.yaml").read_text(encoding="utf-8")
    assert re.findall(r"newTag: (\S+)|app\.kubernetes\.io/version: (\S+)", base) == [
        ("", __version__),
        (__version__, ""),
    ]
    install = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"toposcope:(\d+\.\d+\.\d+\S*)`|newTag: (\d\S*)", install)) == {
        (__version__, ""),
        ("", __version__),
    }
    assert f"toposcope:{__version__} ." in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_changelog_is_one_to_keep() -> None:
    text = CHANGELOG.read_text(encoding="utf-8")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= set(HEADINGS)


def test_notes_of_a_release_are_its_section() -> None:
    assert notes(__version__, RELEASED) == "### Added\n\n- Everything."


def test_tag_of_another_version_is_refused() -> None:
    with pytest.raises(NoReleaseError, match=f"the tag says 9.9.9 and toposcope.py {__version__}"):
        notes("9.9.9", RELEASED)


@pytest.mark.parametrize(
    "removed",
    [
        pytest.param(" - 2026-12-01", id="without-date"),
        pytest.param("### Added\n\n- Everything.\n", id="without-changes"),
        pytest.param("\n## [", id="without-heading"),
    ],
)
def test_version_without_a_section_is_refused(removed: str) -> None:
    assert removed in RELEASED
    with pytest.raises(NoReleaseError, match="has no section"):
        notes(__version__, RELEASED.replace(removed, ""))


def test_command_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["9.9.9"]) == 1
    assert "they must be the same" in capsys.readouterr().err
    assert main([]) == 2


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_pinned_and_may_do_little(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for used in re.findall(r"uses: (\S+.*)$", text, re.MULTILINE):
        assert re.fullmatch(r"\./\S+|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "uses" in job or (job["runs-on"] == "ubuntu-24.04" and job["timeout-minutes"]), name
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def build_of(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The inputs of the only step that builds an image."""
    (build,) = [step for step in steps if "build-push-action" in step.get("uses", "")]
    inputs: dict[str, Any] = build["with"]
    return inputs


def test_ci_runs_the_gate_and_builds_image_and_chart() -> None:
    steps = []
    for job in load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"].values():
        steps.extend(job["steps"])
    commands = [step.get("run") for step in steps]
    assert 'sudo -E env "PATH=$PATH" .ci/run' in commands
    assert "make chart" in commands
    image = build_of(steps)
    assert image["platforms"] == "linux/amd64,linux/arm64"
    assert image["sbom"] is True


def test_release_pins_its_bases_and_signs_what_it_publishes() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "release.yml")
    image, release = workflow["jobs"]["image"], workflow["jobs"]["release"]
    build = build_of(image["steps"])
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    given = re.findall(r"^(\w+)=\$\{\{ steps\.base\.outputs", build["build-args"], re.MULTILINE)
    assert given == re.findall(r"^ARG (\w+_DIGEST)=$", recipe, re.MULTILINE)
    for job in (image, release):
        assert job["permissions"]["id-token"] == "write"
        assert "cosign sign --yes" in "".join(step.get("run", "") for step in job["steps"])
    uploaded = release["steps"][-1]["run"]
    assert all(name in uploaded for name in ("dist/*.tgz", "dist/*.whl", "dist/*.tar.gz", "dist/krew.yaml"))
    # What people download is signed before it is uploaded, and its bundle goes with it.
    signing = release["steps"][-2]["run"]
    assert "for file in dist/*.whl dist/*.tar.gz; do" in signing
    assert 'cosign sign-blob --yes --bundle "$file.sigstore.json" "$file"' in signing
    assert "dist/*.sigstore.json" in uploaded
    get = (ROOT / "docs" / "get.md").read_text(encoding="utf-8")
    # Whom cosign asks for is who signs: this workflow, at a tag.
    assert get.count("/.github/workflows/release.yml@refs/tags/v$VERSION") == 3
    assert [value["push"]["tags"] for key, value in workflow.items() if str(key) == "True"] == [["v*"]]  # YAML's `on`
    signed = set(re.findall(r"ghcr\.io/\S+?/((?:charts/)?toposcope)", "".join(re.findall(r"cosign verify (\S+)", get))))
    assert signed == {"toposcope", "charts/toposcope"}


def test_build_backend_is_pinned_with_all_that_it_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lock = (ROOT / "requirements-build.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+==\S+) \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    # `pip install -e` asks for it, a wheel does not.
    (editables,) = (name for name in pinned if name.startswith("editables=="))
    pinned.remove(editables)
    assert project["build-system"]["requires"] == pinned
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installing = [line for line in makefile.splitlines() if "--editable" in line]
    assert installing
    assert all("--no-build-isolation" in line for line in installing)


def test_updates_are_proposed_for_every_lock() -> None:
    covered = set()
    for update in load(ROOT / ".github" / "dependabot.yml")["updates"]:
        for folder in update.get("directories", [update.get("directory")]):
            covered.add((update["package-ecosystem"], folder.strip("/")))
    locks = [
        ("docker", "Dockerfile"),
        ("gomod", "tests/*/go.mod"),
        ("gomod", "tests/*/*/go.mod"),
        ("npm", "tools/docgen/package-lock.json"),
        ("npm", "toposcope/ui/page/package-lock.json"),
        ("pip", "*.lock"),
        ("pip", "image/*.lock"),
    ]
    locked = set()
    for kind, pattern in locks:
        for path in ROOT.glob(pattern):
            folder = str(path.parent.relative_to(ROOT))
            locked.add((kind, folder.strip(".")))
    held = ("gomod", "tests/apiserver/oldest")  # the oldest Kubernetes that is supported
    assert covered - {("github-actions", "")} == locked - {held}


def test_security_insights_names_what_is_there() -> None:
    text = (ROOT / "SECURITY-INSIGHTS.yml").read_text(encoding="utf-8")
    assert load(ROOT / "SECURITY-INSIGHTS.yml")["header"]["schema-version"] == "2.0.0"
    for page in re.findall(r"blob/main/(\S+)", text):
        assert (ROOT / page).is_file(), page


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_are_forms(path: Path) -> None:
    form = load(path)
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= form.keys()
    ids = []
    for field in form["body"]:
        if field["type"] != "markdown":
            assert field["attributes"]["label"]
            ids.append(field["id"])
    assert len(set(ids)) == len(ids)
    for page in re.findall(r"`((?:docs/)?\w+\.md)`", path.read_text(encoding="utf-8")):
        assert (ROOT / page).is_file(), page


def test_actionlint_has_nothing_to_say() -> None:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not on PATH; .ci/run builds and runs it")
    done = subprocess.run([program, *WORKFLOWS], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stdout
