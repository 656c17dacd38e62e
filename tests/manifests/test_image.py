"""The image's recipe agrees with the project file and with the pods that run it."""

import tomllib
from pathlib import Path

from tests.manifests.support import Manifests

REPO = Path(__file__).parents[2]
RECIPE = (REPO / "Dockerfile").read_text().splitlines()


def test_the_build_sees_all_that_the_wheel_is_made_of() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())
    wanted = {
        "pyproject.toml",
        "requirements.lock",
        project["project"]["readme"],
        *project["project"]["license-files"],
        *project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"],
        *project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"],
    }
    lines = (REPO / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in lines if line.startswith("!")} == wanted


def test_the_entry_point_is_a_command_of_the_project() -> None:
    scripts = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["scripts"]
    assert 'ENTRYPOINT ["toposcope"]' in RECIPE
    assert "toposcope" in scripts


def test_image_and_pods_agree_on_the_user(base: Manifests) -> None:
    (user,) = (line.removeprefix("USER ") for line in RECIPE if line.startswith("USER "))
    for program in ("agent", "controller"):
        context = base.pod_template(program)["spec"]["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == user


def test_all_stages_start_from_the_same_pinned_base() -> None:
    page, *bases = [line.split()[1] for line in RECIPE if line.startswith("FROM ")]
    assert page == "node:${NODE_TAG}${NODE_DIGEST:+@${NODE_DIGEST}}"
    assert bases == ["python:${PYTHON_TAG}${PYTHON_DIGEST:+@${PYTHON_DIGEST}}"] * 2


def test_the_page_is_built_from_its_lock_file_alone_and_ends_in_the_wheel() -> None:
    assert any(line.startswith("RUN npm ci --ignore-scripts") for line in RECIPE)
    assert "COPY --from=page /src/ui/static ui/static" in RECIPE
    ignored = (REPO / ".dockerignore").read_text().splitlines()
    assert {"ui/page/node_modules", "ui/static"} <= set(ignored)
    assert (REPO / "ui" / "page" / "package-lock.json").exists()
