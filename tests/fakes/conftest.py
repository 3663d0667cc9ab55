"""The fake NVML library, built once, and a way to put questions to it through the real pynvml."""

import json
import os
import shutil
import subprocess  # noqa: TID251 - pynvml keeps a library it loaded: each question needs a process of its own
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "nvml"
BUILT = Path(__file__).parents[2] / "build" / "fake-nvml" / "libnvidia-ml.so.1"

PRELUDE = """
import json, os, sys, threading, time
from pynvml import *

def call(function, *args):
    try:
        return function(*args)
    except NVMLError as error:
        return f"error {error.value}"

def write(state):
    path = os.environ["FAKE_NVML_STATE"]
    with open(path + ".new", "w") as file:
        file.write(state if isinstance(state, str) else json.dumps(state))
    os.rename(path + ".new", path)

state = json.load(open(os.environ["FAKE_NVML_STATE"]))
"""

Ask = Callable[[dict[str, object], str], object]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a libnvidia-ml.so.1 that is no older than its sources."""
    newest = max(path.stat().st_mtime for path in SOURCES.glob("*.[ch]"))
    if BUILT.exists() and BUILT.stat().st_mtime >= newest:
        return BUILT.parent
    if not shutil.which("cc") or not shutil.which("make"):
        pytest.skip("needs cc and make")
    out = tmp_path_factory.mktemp("fake-nvml")
    subprocess.run(["make", "-s", "-C", SOURCES, f"OUT={out}"], check=True)
    return out


@pytest.fixture
def ask(library: Path, tmp_path: Path) -> Ask:
    """`ask(state, code)`: what `code` leaves in `result`, run against a library in that state."""

    def run(state: dict[str, object], code: str) -> object:
        path = tmp_path / "state.json"
        path.write_text(json.dumps(state))
        env = {**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(path)}
        program = f"{PRELUDE}\n{code}\nprint(json.dumps(result))"
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def ask_gpu(ask: Ask) -> Ask:
    """Like `ask`, with `h` the handle of GPU 0."""
    return lambda state, code: ask(state, f"nvmlInit()\nh = nvmlDeviceGetHandleByIndex(0)\n{code}")
