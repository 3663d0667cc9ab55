"""A second opinion on this machine from psutil, which reads the same kernel with other code."""

import os
import subprocess  # noqa: TID251 - a scrape as users make it
import sys

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.e2e


def scrape():
    done = subprocess.run(
        [sys.executable, "-m", "gpuwait", "once", "--no-collector.gpu"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(done.stdout)
        for s in family.samples
    }


def test_disks_agree():
    """Operations and bytes of each disk lie between psutil's reading before and after."""
    before, ours, after = psutil.disk_io_counters(True), scrape(), psutil.disk_io_counters(True)
    compared = 0
    for name, low in before.items():
        for field, metric in [
            ("read_count", "reads_completed"),
            ("write_count", "writes_completed"),
            ("read_bytes", "read_bytes"),
            ("write_bytes", "written_bytes"),
        ]:
            value = ours.get((f"gpuwait_disk_{metric}_total", (("device", name),)))
            if value is not None:
                assert getattr(low, field) <= value <= getattr(after[name], field)
                compared += 1
    assert compared > 0


def test_memory_agrees():
    """Total memory and swap are the same figures, what is available nearly so."""
    ours, memory, swap = scrape(), psutil.virtual_memory(), psutil.swap_memory()
    assert ours["gpuwait_memory_total_bytes", ()] == memory.total
    assert ours["gpuwait_memory_swap_total_bytes", ()] == swap.total
    assert ours["gpuwait_memory_available_bytes", ()] == pytest.approx(memory.available, rel=0.1)


def test_the_process_is_small():
    """One process without the GPU reader stays below 60 MiB while it answers."""
    process = psutil.Popen(
        [sys.executable, "-m", "gpuwait", "serve", "--web.listen-address=127.0.0.1:0", "--no-collector.gpu"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while "listens on" not in process.stderr.readline():
            pass
        assert sum(p.memory_info().rss for p in [process, *process.children(True)]) < 60 * 2**20
    finally:
        os.kill(process.pid, 15)
        process.wait(5)
        process.stderr.close()
