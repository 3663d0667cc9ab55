"""The chart rendered by Helm's own engine, and the image's tree run as its pod."""

import importlib.util
import os
import shutil
import subprocess  # noqa: TID251 - deploy/docker/tree
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "gpuwait"


@pytest.fixture(scope="session")
def helm():
    """Helm's engine; skips where it is not installed (`.ci/venv deploy`)."""
    return pytest.importorskip("helm_python", reason="needs the extra deploy-test")


@pytest.fixture(scope="session")
def texts(helm):
    """`texts(values)`: what each template becomes, by name, for the release `gpuwait` in `gpuwait`."""

    def run(values=None):
        with helm.Chart.load(CHART) as chart:
            found = chart.render(values or {}, name="gpuwait", namespace="gpuwait")
        return {name.removeprefix("gpuwait/templates/"): text for name, text in found.items()}

    return run


@pytest.fixture(scope="session")
def render(texts):
    """`render(values)`: every object that the chart makes."""

    def run(values=None):
        found = {name: text for name, text in texts(values).items() if name.endswith(".yaml")}
        return [d for name in sorted(found) for d in yaml.safe_load_all(found[name]) if d]

    return run


@pytest.fixture(scope="session")
def pod(render):
    """`pod(values)`: the pod's specification."""

    def run(values=None):
        (found,) = (d for d in render(values) if d["kind"] == "DaemonSet")
        return found["spec"]["template"]["spec"]

    return run


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """The file tree of the image, built without an engine."""
    if not Path("/usr/bin/python3").exists() or not shutil.which("setpriv"):
        pytest.skip("needs Debian's python3 and util-linux")
    if (ROOT / ".venv" / "bin" / "python").exists():
        pip = f"{ROOT}/.venv/bin/python -m pip"
    else:
        pip = f"{sys.executable} -m pip"
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([ROOT / "deploy/docker/tree", folder], check=True, env={**os.environ, "PIP": pip})
    return folder


@pytest.fixture(scope="session")
def build():
    """deploy/kubernetes/build.py as a module."""
    spec = importlib.util.spec_from_file_location("deploy_build", ROOT / "deploy/kubernetes/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
