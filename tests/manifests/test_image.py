"""The image's recipe agrees with the project file and with the pods that run it."""

import re
import tomllib

from tests.manifests.support import Manifests
from tests.support.paths import ROOT


def lines_of(path: str) -> list[str]:
    """A file of the repository."""
    return (ROOT / path).read_text().splitlines()


def after(begin: str, lines: list[str]) -> list[str]:
    """What stands after these words, of each line that begins with them."""
    rests = []
    for line in lines:
        if line.startswith(begin):
            rests.append(line.removeprefix(begin))
    return rests


RECIPE = lines_of("Dockerfile")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_build_sees_all_that_the_wheel_is_made_of() -> None:
    project = PYPROJECT["project"]
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = {
        "pyproject.toml",
        "hatch_build.py",
        "image",
        project["readme"],
        *project["license-files"],
        *wheel["packages"],
        *wheel["force-include"],
    }
    kept = after("!", lines_of(".dockerignore"))
    assert set(kept) == wanted


def test_entry_point_is_a_command_of_the_project() -> None:
    scripts = PYPROJECT["project"]["scripts"]
    assert 'ENTRYPOINT ["toposcope"]' in RECIPE
    assert "toposcope" in scripts


def test_image_and_pods_agree_on_the_user(base: Manifests) -> None:
    (user,) = after("USER ", RECIPE)
    for program in ("agent", "controller"):
        context = base.pod_spec(program)["securityContext"]
        assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_all_stages_start_from_the_same_pinned_base() -> None:
    images = []
    for stage in after("FROM ", RECIPE):
        image, _, _ = stage.partition(" ")
        images.append(image)
    page, *bases = images
    assert page == "node:${NODE_TAG}${NODE_DIGEST:+@${NODE_DIGEST}}"
    assert bases == ["python:${PYTHON_TAG}${PYTHON_DIGEST:+@${PYTHON_DIGEST}}"] * 2


def test_page_is_built_from_its_lock_file_alone_and_ends_in_the_wheel() -> None:
    assert after("RUN npm ci --ignore-scripts", RECIPE)
    assert "COPY --from=page /src/toposcope/ui/static toposcope/ui/static" in RECIPE
    assert "ENV TOPOSCOPE_RELEASE=1" in RECIPE
    ignored = lines_of(".dockerignore")
    assert "toposcope/ui/page/node_modules" in ignored
    assert "toposcope/ui/static" in ignored
    lock = ROOT / "toposcope" / "ui" / "page" / "package-lock.json"
    assert lock.exists()


def test_build_is_what_the_tests_run() -> None:
    assert after("RUN image/", RECIPE) == [
        "assemble.sh dependencies /opt/toposcope",
        "assemble.sh program /opt/toposcope",
    ]
    assert "COPY --from=build /opt/toposcope /opt/toposcope" in RECIPE
    script = lines_of("image/assemble.sh")
    (settings,) = after("export PYTHON", script)
    assert f"ENV PYTHON{settings}" in RECIPE


def test_nothing_in_the_recipe_is_started_by_a_shell_at_run_time() -> None:
    assert after("ENTRYPOINT ", RECIPE) == ['["toposcope"]']
    assert after("CMD ", RECIPE) == []
    assert after("HEALTHCHECK ", RECIPE) == []


def test_image_holds_what_the_programs_need_in_a_pod() -> None:
    dependencies = set(PYPROJECT["project"]["dependencies"])
    needed = set()
    for line in lines_of("image/runtime.in"):
        if not line.startswith("#"):
            needed.add(line)
    assert needed <= dependencies
    left_out = set()
    for requirement in dependencies - needed:
        name = re.split(r"[<>=]", requirement)[0]
        left_out.add(name)
    assert left_out == {"kubernetes"}


def pins(path: str) -> set[str]:
    """The versions of a lock file."""
    text = (ROOT / path).read_text()
    return set(re.findall(r"^([\w.-]+==[^\s;\\]+)", text, re.MULTILINE))


def test_image_has_the_versions_of_everywhere_else() -> None:
    assert pins("image/runtime.lock") <= pins("requirements.lock")


def test_no_program_of_the_base_image_can_make_somebody_root() -> None:
    recipe = "\n".join(RECIPE)
    assert "-perm /6000 -exec chmod a-s {} +" in recipe
