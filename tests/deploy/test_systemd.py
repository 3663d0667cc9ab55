"""The systemd unit: what systemd says of it, and whether it starts the daemon."""

import re
import shutil
import subprocess  # noqa: TID251 - systemd's own tools
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNIT = FOLDER / "gpuwait.service"

pytestmark = pytest.mark.e2e


def analyze(*words):
    """Exit status and all output of systemd-analyze; skips where there is none."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here (Debian: apt-get install systemd)")
    done = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def unit(tmp_path):
    """The unit as it is shipped, with a program that exists."""
    path = tmp_path / "gpuwait.service"
    path.write_text(UNIT.read_text().replace("/opt/gpuwait/bin/gpuwait", sys.executable))
    return str(path)


def test_systemd_has_nothing_to_say_of_the_unit(unit):
    """`verify` is silent: it exits 0 for unknown keys too, so only silence will do."""
    assert analyze("verify", unit) == (0, "")


def test_a_misspelt_key_would_be_seen(unit):
    """The check above can fail."""
    Path(unit).write_text(Path(unit).read_text().replace("PrivateTmp=", "PrivateTemp="))
    assert "PrivateTemp" in analyze("verify", unit)[1]


def test_the_exposure_is_what_the_documentation_says(unit):
    """Exposure 2.9 at most; SECURITY.md has the reason for each point that remains."""
    status, said = analyze("security", "--offline=true", "--threshold=29", unit)
    assert status == 0, said
    remaining = {match[1] for match in re.finditer(r"^✗ ([A-Za-z]+)=", said, re.MULTILINE)}
    text = (FOLDER.parent / "SECURITY.md").read_text()
    assert {name for name in remaining if name not in text} == set()


def test_every_variable_of_the_environment_file_is_a_flag():
    """No line of gpuwait.env names an option that the daemon does not have."""
    names = re.findall(r"^#?(GPUWAIT_[A-Z_]+)=", (FOLDER / "gpuwait.env").read_text(), re.MULTILINE)
    assert "GPUWAIT_WEB_LISTEN_ADDRESS" in names
    said = subprocess.run(
        [sys.executable, "-m", "gpuwait", "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    flags = {f"--{name.removeprefix('GPUWAIT_').lower().replace('_', '.', 1)}" for name in names}
    known = {flag.replace(".", "-").replace("_", "-") for flag in re.findall(r"--[a-z][a-z.-]*", said)}
    assert {flag for flag in flags if flag.replace(".", "-").replace("_", "-") not in known} == set()
