"""The image: what hadolint says of its recipe, and the same tree built without an engine."""

import re
import subprocess  # noqa: TID251 - hadolint, the interpreter of the tree
import sys
from pathlib import Path

import pytest

from gpuwait import __version__

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "docker"

pytestmark = pytest.mark.e2e


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **more)


@pytest.fixture(scope="session")
def hadolint():
    """The program, beside the interpreter of the tests."""
    found = Path(sys.executable).parent / "hadolint"
    if not found.exists():
        pytest.skip("needs the extra deploy-test")
    return found


def test_hadolint_has_nothing_to_say(hadolint):
    """No finding of any severity."""
    done = run(hadolint, "--failure-threshold=style", FOLDER / "Dockerfile")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_hadolint_would_say_something(hadolint, tmp_path):
    """The check above can fail."""
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp && apt-get install curl\n")
    assert run(hadolint, tmp_path / "Dockerfile").returncode == 1


def test_the_tree_is_made_by_the_steps_of_the_recipe():
    """The same extras, constraints, clean-up and place; a change of one must be made in both."""
    recipe = (FOLDER / "Dockerfile").read_text()
    script = (FOLDER / "tree").read_text()
    for step in (
        "-m venv --without-pip",
        "--prefer-binary -c constraints.txt",
        "[kubelet]",
        "-name __pycache__ -prune",
    ):
        assert step in recipe
        assert step in script
    assert "/opt/gpuwait" in recipe
    assert "#!/opt/gpuwait/bin/python" in script


def test_the_recipe_is_pinned_and_runs_as_nobody():
    """A version of the base, a user without rights, and no shell around the program."""
    recipe = (FOLDER / "Dockerfile").read_text()
    assert re.search(r"^ARG PYTHON=3\.\d+\.\d+-slim-[a-z]+$", recipe, re.MULTILINE)
    assert re.search(r"^USER 65534:65534$", recipe, re.MULTILINE)
    assert 'ENTRYPOINT ["gpuwait"]' in recipe
    assert "--no-cache-dir" in recipe


def test_only_what_is_installed_goes_to_the_builder():
    """The ignore file admits what the recipe copies and no more."""
    kept = re.findall(r"^!(.+)$", (FOLDER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.+) \./?\S*$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(kept) == sorted(word for line in copied for word in line.split())


def test_the_tree_has_the_program_and_nothing_to_build_with(tree):
    """It runs, knows the kubelet's protocol and bcrypt, and is small."""
    site = next((tree / "opt/gpuwait/lib").glob("python3.*")) / "site-packages"
    assert not (site / "pip").exists()
    assert {p.name for p in site.iterdir()} >= {"gpuwait", "h2", "bcrypt", "pynvml.py", "waitress", "yaml"}
    first = (tree / "opt/gpuwait/bin/gpuwait").read_text().splitlines()[0]
    assert first == "#!/opt/gpuwait/bin/python"
    size = sum(p.stat().st_size for p in (tree / "opt").rglob("*") if not p.is_symlink() and p.is_file())
    assert size < 25 * 2**20
    assert not [p for p in site.rglob("*.pyc") if bytes(str(tree), "utf-8") in p.read_bytes()]


def test_the_program_of_the_tree_runs_and_writes_nothing(tree):
    """With its own interpreter, outside of the place that it was made for."""
    before = set((tree / "opt").rglob("*"))
    done = run(
        tree / "opt/gpuwait/bin/python", tree / "opt/gpuwait/bin/gpuwait", "--version", env={"PATH": "/bin"}
    )
    assert done.stdout == f"gpuwait {__version__}\n", done.stderr
    assert set((tree / "opt").rglob("*")) == before
