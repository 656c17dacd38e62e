"""The image's recipe agrees with the project file and with the pods that run it."""

import re
import tomllib

from tests.manifests.support import Manifests
from tests.support.paths import ROOT

RECIPE = (ROOT / "Dockerfile").read_text().splitlines()


def test_build_sees_all_that_the_wheel_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {
        "pyproject.toml",
        "hatch_build.py",
        "image",
        project["project"]["readme"],
        *project["project"]["license-files"],
        *project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"],
        *project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"],
    }
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert kept == wanted


def test_entry_point_is_a_command_of_the_project() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert 'ENTRYPOINT ["toposcope"]' in RECIPE
    assert "toposcope" in scripts


def test_image_and_pods_agree_on_the_user(base: Manifests) -> None:
    (user,) = [line for line in RECIPE if line.startswith("USER ")]
    for program in ("agent", "controller"):
        context = base.pod_spec(program)["securityContext"]
        assert user == f"USER {context['runAsUser']}:{context['runAsGroup']}"


def test_all_stages_start_from_the_same_pinned_base() -> None:
    stages = [line for line in RECIPE if line.startswith("FROM ")]
    page, *bases = [stage.split()[1] for stage in stages]
    assert page == "node:${NODE_TAG}${NODE_DIGEST:+@${NODE_DIGEST}}"
    assert bases == ["python:${PYTHON_TAG}${PYTHON_DIGEST:+@${PYTHON_DIGEST}}"] * 2


def test_page_is_built_from_its_lock_file_alone_and_ends_in_the_wheel() -> None:
    assert any(line.startswith("RUN npm ci --ignore-scripts") for line in RECIPE)
    assert "COPY --from=page /src/toposcope/ui/static toposcope/ui/static" in RECIPE
    assert "ENV TOPOSCOPE_RELEASE=1" in RECIPE
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {"toposcope/ui/page/node_modules", "toposcope/ui/static"} <= set(ignored)
    assert (ROOT / "toposcope" / "ui" / "page" / "package-lock.json").exists()


def test_build_is_what_the_tests_run() -> None:
    steps = [line.removeprefix("RUN ") for line in RECIPE if line.startswith("RUN image/")]
    assert steps == [f"image/assemble.sh {step} /opt/toposcope" for step in ("dependencies", "program")]
    script = (ROOT / "image" / "assemble.sh").read_text().splitlines()
    (settings,) = (line.removeprefix("export ") for line in script if line.startswith("export PYTHON"))
    assert f"ENV {settings}" in RECIPE
    assert f"COPY --from=build {steps[0].split()[-1]} /opt/toposcope" in RECIPE


def test_nothing_in_the_recipe_is_started_by_a_shell_at_run_time() -> None:
    started = [line for line in RECIPE if line.split(" ")[0] in {"ENTRYPOINT", "CMD", "HEALTHCHECK"}]
    assert started == ['ENTRYPOINT ["toposcope"]']


def test_image_holds_what_the_programs_need_in_a_pod() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lines = (ROOT / "image" / "runtime.in").read_text().splitlines()
    needed = {line for line in lines if not line.startswith("#")}
    assert {re.split(r"[<>=]", left)[0] for left in set(project) - needed} == {"kubernetes"}
    assert needed <= set(project)
    # The same versions as everywhere else.
    locks = ("image/runtime.lock", "requirements.lock")
    pins = [set(re.findall(r"^([\w.-]+==[^\s;\\]+)", (ROOT / path).read_text(), re.MULTILINE)) for path in locks]
    assert pins[0] <= pins[1]


def test_no_program_of_the_base_image_can_make_somebody_root() -> None:
    assert any("-perm /6000 -exec chmod a-s {} +" in line for line in RECIPE)
