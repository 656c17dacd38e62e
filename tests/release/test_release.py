"""One version, a changelog that a release can be made of, and workflows that say exactly what they run."""

import os
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
DATED = re.compile(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d")
"""A version that is released."""
RELEASED = f"""# Changelog

## [Unreleased]

## [{__version__}] - 2026-12-01

### Added

- Everything.

## [0.0.1] - 2026-01-01

### Added

- Less.
"""


def read(path: str) -> str:
    """A file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def test_version_is_a_semantic_one_and_the_same_everywhere() -> None:
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?", __version__)

    base = read("manifests/base/kustomization.yaml")
    versions = re.findall(r"newTag: (\S+)|app\.kubernetes\.io/version: (\S+)", base)
    assert versions == [
        ("", __version__),
        (__version__, ""),
    ]

    install = read("docs/install.md")
    versions = re.findall(r"toposcope:(\d+\.\d+\.\d+\S*)`|newTag: (\d\S*)", install)
    assert set(versions) == {
        (__version__, ""),
        ("", __version__),
    }

    assert f"toposcope:{__version__} ." in read("Dockerfile")


def test_changelog_has_versions_dates_and_known_headings() -> None:
    text = CHANGELOG.read_text(encoding="utf-8")
    newest, *versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert newest in ("[Unreleased]", f"[{__version__}]") or DATED.fullmatch(newest)
    for version in versions:
        assert DATED.fullmatch(version)
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(headings) <= set(HEADINGS)


def test_first_version_is_described_in_forty_lines() -> None:
    _, _, after = CHANGELOG.read_text(encoding="utf-8").partition("\n## [0.1.0]")
    section, _, _ = after.partition("\n## ")
    assert 10 < len(section.splitlines()) <= 40


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
    changelog = RELEASED.replace(removed, "")
    with pytest.raises(NoReleaseError, match="has no section"):
        notes(__version__, changelog)


def test_refused_tag_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["9.9.9"]) == 1
    assert "they must be the same" in capsys.readouterr().err
    assert main([]) == 2


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_pinned_and_may_do_little(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for used in re.findall(r"uses: (\S+.*)$", text, re.MULTILINE):
        assert re.fullmatch(r"\./\S+|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        if "uses" in job:
            continue
        assert job["runs-on"] == "ubuntu-24.04", name
        assert job["timeout-minutes"], name
    checkouts = text.count("actions/checkout@")
    assert text.count("persist-credentials: false") == checkouts


def build_of(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The inputs of the only step that builds an image."""
    inputs: list[dict[str, Any]] = []
    for step in steps:
        action = step.get("uses", "")
        if "build-push-action" in action:
            inputs.append(step["with"])
    (only,) = inputs
    return only


def commands_of(steps: list[dict[str, Any]]) -> list[str]:
    """What the steps run."""
    return [step.get("run", "") for step in steps]


def test_ci_runs_the_gate_and_builds_image_and_chart() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "ci.yml")
    steps = []
    for job in workflow["jobs"].values():
        steps.extend(job["steps"])
    commands = commands_of(steps)
    assert 'sudo -E env "PATH=$PATH" .ci/run' in commands
    assert "make chart" in commands
    image = build_of(steps)
    assert image["platforms"] == "linux/amd64,linux/arm64"
    assert image["sbom"] is True


@pytest.fixture
def release() -> dict[str, Any]:
    """The workflow of a release."""
    return load(ROOT / ".github" / "workflows" / "release.yml")


def test_release_builds_on_the_bases_that_it_pins(release: dict[str, Any]) -> None:
    image = release["jobs"]["image"]
    arguments = build_of(image["steps"])["build-args"]
    given = re.findall(r"^(\w+)=\$\{\{ steps\.base\.outputs", arguments, re.MULTILINE)
    wanted = re.findall(r"^ARG (\w+_DIGEST)=$", read("Dockerfile"), re.MULTILINE)
    assert given == wanted


@pytest.mark.parametrize("name", ["image", "release"])
def test_release_signs_what_a_job_publishes(release: dict[str, Any], name: str) -> None:
    job = release["jobs"][name]
    assert job["permissions"]["id-token"] == "write"
    commands = commands_of(job["steps"])
    assert "cosign sign --yes" in "".join(commands)


def test_release_signs_files_before_it_uploads_them(release: dict[str, Any]) -> None:
    *_, signing, uploading = commands_of(release["jobs"]["release"]["steps"])
    assert "for file in dist/*.whl dist/*.tar.gz; do" in signing
    assert 'cosign sign-blob --yes --bundle "$file.sigstore.json" "$file"' in signing
    assert "dist/*.tgz" in uploading
    assert "dist/*.whl" in uploading
    assert "dist/*.tar.gz" in uploading
    assert "dist/krew.yaml" in uploading
    assert "dist/*.sigstore.json" in uploading


def test_page_verifies_who_signs_at_a_tag(release: dict[str, Any]) -> None:
    page = read("docs/install.md")
    assert page.count("/.github/workflows/release.yml@refs/tags/v$VERSION") == 3
    triggers = {str(key): value for key, value in release.items()}["True"]  # YAML's `on`
    assert triggers["push"]["tags"] == ["v*"]
    verified = "".join(re.findall(r"cosign verify (\S+)", page))
    names = re.findall(r"ghcr\.io/\S+?/((?:charts/)?toposcope)", verified)
    assert set(names) == {"toposcope", "charts/toposcope"}


def test_build_backend_is_pinned_with_all_that_it_needs() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    lock = read("requirements-build.lock")
    pinned = re.findall(r"^([\w.-]+==\S+) \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    # `pip install -e` asks for editables, a wheel does not.
    required = []
    for requirement in pinned:
        if not requirement.startswith("editables=="):
            required.append(requirement)
    assert len(required) == len(pinned) - 1
    assert project["build-system"]["requires"] == required


def test_makefile_installs_without_build_isolation() -> None:
    installing = []
    for line in read("Makefile").splitlines():
        if "--editable" in line:
            installing.append(line)
    assert installing
    for line in installing:
        assert "--no-build-isolation" in line


def test_make_help_lists_every_target_with_a_description() -> None:
    described = re.findall(r"^([\w-]+):.*## ", read("Makefile"), re.MULTILINE)
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not on PATH")
    # Without what another make says to those that it calls.
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run([make, "help"], cwd=ROOT, capture_output=True, text=True, check=True, env=outside)
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert "e2e" in listed
    assert listed == described


def test_updates_are_proposed_for_every_lock() -> None:
    dependabot = load(ROOT / ".github" / "dependabot.yml")
    covered = set()
    for update in dependabot["updates"]:
        ecosystem = update["package-ecosystem"]
        folders = update.get("directories") or [update["directory"]]
        for folder in folders:
            covered.add((ecosystem, folder.strip("/")))
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
            folder = path.parent.relative_to(ROOT)
            locked.add((kind, str(folder).strip(".")))
    held = ("gomod", "tests/apiserver/oldest")  # the oldest Kubernetes that is supported
    assert covered - {("github-actions", "")} == locked - {held}


def test_security_insights_names_what_is_there() -> None:
    text = read("SECURITY-INSIGHTS.yml")
    insights = yaml.load(text, yaml.CSafeLoader)
    assert insights["header"]["schema-version"] == "2.0.0"
    for page in re.findall(r"blob/main/(\S+)", text):
        assert (ROOT / page).is_file(), page


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_of_reports_are_complete(path: Path) -> None:
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


def test_actionlint_finds_nothing() -> None:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not on PATH; .ci/run builds and runs it")
    done = subprocess.run(
        [program, *WORKFLOWS],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
