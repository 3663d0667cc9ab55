"""One scrape of each captured machine, held against a golden file that a person can read."""

import difflib
import os
import re
import shutil
import subprocess  # noqa: TID251 - a scrape as users make it
import sys
from pathlib import Path

import pytest

from gpuwait import reference
from gpuwait.collectors import ALL

HERE = Path(__file__).resolve().parent
HOSTS = sorted(p for p in (HERE / "hosts").iterdir() if p.is_dir())
FAKE_NVML = HERE.parent / "build" / "fake-nvml"
#: Lines that differ from run to run or from machine to machine.
VOLATILE = re.compile(
    r"(# (HELP|TYPE) )?(process_|python_info|gpuwait_(build_info|collector_duration_seconds|gpu_reader_))"
)
#: Families that no captured machine can show: the host is not running, or the figure is a difference.
NEVER_CAPTURED = {
    "gpuwait_numa_remote_hint_ratio": "needs two readings",
    "gpuwait_gpu_time_seconds_total": "needs the sampler",
    "gpuwait_gpu_waiting_seconds_total": "needs the sampler",
    "gpuwait_gpu_price_per_hour": "needs the sampler",
    "gpuwait_workload_blocked_threads": "needs the sampler",
    "gpuwait_delay_samples_dropped_total": "needs the sampler",
    "gpuwait_delay_accounting_coverage_ratio": "needs the sampler",
    "gpuwait_gpu_allocation_age_seconds": "needs a kubelet",
    "gpuwait_web_config_reload_success": "needs --web.config.file",
    "gpuwait_build_info": "volatile",
    "gpuwait_collector_duration_seconds": "volatile",
    "gpuwait_gpfs_read_bytes_total": "needs mmpmon",
    "gpuwait_gpfs_written_bytes_total": "needs mmpmon",
    "gpuwait_gpfs_opens_total": "needs mmpmon",
    "gpuwait_gpfs_closes_total": "needs mmpmon",
    "gpuwait_gpfs_reads_total": "needs mmpmon",
    "gpuwait_gpfs_writes_total": "needs mmpmon",
    "gpuwait_gpfs_readdirs_total": "needs mmpmon",
    "gpuwait_gpfs_inode_updates_total": "needs mmpmon",
}


def scrape(host):
    """Text of `gpuwait once` on this tree, without the volatile lines."""
    env = dict(os.environ)
    flags = []
    if (host / "nvml.json").exists():
        if not (FAKE_NVML / "libnvidia-ml.so.1").exists():
            pytest.skip("needs the fake NVML: make fake-nvml")
        env |= {"LD_LIBRARY_PATH": str(FAKE_NVML), "FAKE_NVML_STATE": str(host / "nvml.json")}
    if host != Path("/"):
        flags = [f"--path.procfs={host}/proc", f"--path.sysfs={host}/sys", f"--path.rootfs={host}",
                 f"--path.udev.data={host}/run/udev/data"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "gpuwait", "once", *flags],
        capture_output=True, text=True, env=env, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return "".join(line for line in done.stdout.splitlines(keepends=True) if not VOLATILE.match(line))


@pytest.mark.parametrize("host", HOSTS, ids=lambda p: p.name)
def test_golden(host):
    """The scrape is what was read and approved; `make golden` rewrites it."""
    if os.sysconf("SC_PAGESIZE") != 4096:
        pytest.skip("the golden files hold pages of 4096 bytes")
    text, golden = scrape(host), host / "golden.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    wanted = golden.read_text()
    assert text == wanted, "".join(
        difflib.unified_diff(wanted.splitlines(True), text.splitlines(True), "golden", "now", n=0)
    )


@pytest.mark.e2e
@pytest.mark.parametrize("host", [*HOSTS, Path("/")], ids=lambda p: p.name or "this-machine")
def test_promtool_finds_nothing(host):
    """`promtool check metrics` is silent on every captured machine and on this one."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool (Debian: prometheus)")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=scrape(host), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_family_is_seen_on_some_host():
    """No family is declared that no captured machine emits."""
    seen = {
        match[1]
        for host in HOSTS
        for match in re.finditer(r"^# TYPE (\S+)", (host / "golden.txt").read_text(), re.M)
    }
    declared = {f.name for _, _, families in reference.sections(ALL) for f in families}
    unseen = {n for n in declared - seen - NEVER_CAPTURED.keys() if not n.startswith("gpuwait_gpu_reader_")}
    assert unseen == set()
