"""The GPU reader has no capability when it loads the vendor's library."""

import shutil
import subprocess  # noqa: TID251 - capabilities belong to a process
import sys
from pathlib import Path

import pytest

CODE = """
from gpuwait.gpu.privileges import give_up
print(give_up())
print(open("/proc/self/status").read())
"""
AGAIN = CODE + "import os; os.execv('/bin/cat', ['cat', '/proc/self/status'])"


def sets(text):
    """The sets of capabilities that the last status in the text shows."""
    lines = [line.split(":\t") for line in text.splitlines() if line.startswith("Cap")]
    return dict(lines[-5:])


def run(*before, code=CODE):
    done = subprocess.run([*before, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_process_that_may_gain_privileges_keeps_what_it_has():
    """Without no_new_privs nothing changes: the library's helper may have to make the device files."""
    before = Path("/proc/self/status").read_text()
    if "NoNewPrivs:\t1" in before:
        pytest.skip("the tests themselves run with no_new_privs")
    text = run()
    assert text.startswith("False\n")
    assert sets(text) == sets(before)


@pytest.mark.root
def test_nothing_is_left_and_nothing_comes_back():
    """With no_new_privs root has no capability, nor has a program that it starts."""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv (Debian: util-linux)")
    text = run("setpriv", "--no-new-privs", code=AGAIN)
    assert text.startswith("True\n")
    found = sets(text)
    assert {found[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
