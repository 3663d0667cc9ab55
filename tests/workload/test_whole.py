"""The whole program on a node of its own making: metrics and `whois` call everything the same."""

from __future__ import annotations

import json
import os
import subprocess  # noqa: TID251 - the program is tested as users run it
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "build" / "fake-nvml"
UIDS = [f"0c1f8a52-77b1-4a3e-9f60-00000000000{n}" for n in range(6)]
IDS = [f"{n}{'a' * 63}" for n in range(6)]
GPUS = [f"GPU-5a1b2c3d-0000-4111-8222-00000000000{n}" for n in range(8)]

pytestmark = pytest.mark.fake_nvml


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7])


def field(number: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def given(pod: str, container: str, device: str) -> bytes:
    devices = field(1, "nvidia.com/gpu") + field(2, device)
    inner = field(1, container) + field(2, devices)
    return field(1, field(1, pod) + field(2, "ml") + field(3, inner))


#: In use; given only; over but still listed; shared with nobody running; two containers of one pod.
ANSWER = (
    given("train-0", "main", GPUS[0])
    + given("idle-0", "main", GPUS[1])
    + given("done-0", "main", GPUS[0])
    + given("done-0", "main", GPUS[2])
    + given("slice-0", "main", f"{GPUS[3]}::0")
    + given("slice-1", "main", f"{GPUS[3]}::1")
)


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        yield Path(place)


@pytest.fixture
def site(root: Path, node: Any) -> Iterator[Any]:
    """Pods that train, idle and share, a Slurm job that runs, one that does not, and a Docker container."""
    node.host = None
    for number, (pod, pid) in enumerate([("train-0", 11), ("idle-0", 0), ("slice-0", 0), ("slice-1", 0)]):
        node.pod(UIDS[number], IDS[number], pid=pid)
        node.log(pod, "ml", "main", IDS[number], UIDS[number])
    node.group("system.slice/slurmstepd.scope/job_77/step_0/user/task_0", 12)
    node.group("system.slice/slurmstepd.scope/job_78/step_batch")
    node.group(f"system.slice/docker-{IDS[5]}.scope", 13)
    node.file(f"root/var/lib/docker/containers/{IDS[5]}/config.v2.json", '{"Name": "/jupyter"}')
    node.file("root/run/exporter/4", '{"SLURM_JOB_ID": "77"}')
    node.file("root/run/exporter/5", '{"SLURM_JOB_ID": "78"}')
    node.file("root/run/exporter/6", '{"SLURM_JOB_ID": "70"}')
    for pid in (11, 12, 13):
        node.file(f"proc/{pid}/stat", f"{pid} (python) S 1 0 0 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100")
        node.file(f"proc/{pid}/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t1\n")
    holders = {0: 11, 4: 12, 7: 13}
    devices = []
    for index, uuid in enumerate(GPUS):
        processes = [{"pid": holders[index], "usedGpuMemory": 5}] if index in holders else []
        calls = {
            "nvmlDeviceGetUtilizationRates": {"gpu": 5, "memory": 1},
            "nvmlDeviceGetComputeRunningProcesses_v3": processes,
        }
        ready = {"nvmlDeviceGetHandleByIndex_v2": "NVML_SUCCESS"}
        devices.append(
            {"index": index, "uuid": uuid, "name": "H100", "minor": index, "calls": calls, **ready}
        )
    state = {"library": "ok", "nvmlInit_v2": "NVML_SUCCESS", "driver_version": "570.1"}
    node.file("nvml.json", json.dumps({**state, "device_count": 8, "devices": devices}))
    handler = grpc.unary_unary_rpc_method_handler(lambda _request, _context: ANSWER)
    service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
    server = grpc.server(ThreadPoolExecutor(2), handlers=(service,))
    server.add_insecure_port(f"unix:{root}/kubelet.sock")
    server.start()
    yield node, f"{root}/kubelet.sock"
    server.stop(None).wait()


def run(site: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not (FAKE / "libnvidia-ml.so.1").exists():
        pytest.skip("needs the fake NVML: make fake-nvml")
    node, socket = site
    env = dict(os.environ, LD_LIBRARY_PATH=str(FAKE), FAKE_NVML_STATE=f"{node.root}/nvml.json")
    paths = [f"--path.procfs={node.root}/proc", f"--path.sysfs={node.root}/sys"]
    paths += [f"--path.rootfs={node.root}/root", f"--path.pod-resources={socket}"]
    command = [sys.executable, "-m", "gpuwait", arguments[0], *paths, *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)


def series(text: str, name: str) -> list[dict[str, str]]:
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    return [sample.labels for sample in families.get(name, ()) if sample.value]


def test_metrics_of_the_site(site: Any) -> None:
    """Whose each GPU is: held, given, shared, or nobody's; what is over has none."""
    done = run(site, "once")
    assert "Traceback" not in done.stderr
    owners: dict[str, list[tuple[str, ...]]] = {}
    for labels in series(done.stdout, "gpuwait_gpu_workload_info"):
        key = tuple(labels[f"workload{part}"] for part in ("_kind", "_namespace", "", "_container"))
        owners.setdefault(labels["gpu"], []).append(key)
    assert owners == {
        "0": [("pod", "ml", "train-0", "main")],
        "1": [("pod", "ml", "idle-0", "main")],
        "3": [("pod", "ml", "slice-0", "main"), ("pod", "ml", "slice-1", "main")],
        "4": [("slurm", "", "77", "0")],
        "5": [("slurm", "", "78", "")],
        "7": [("container", "", "jupyter", "jupyter")],
    }
    allocated = {labels["gpu"] for labels in series(done.stdout, "gpuwait_gpu_allocated")}
    assert allocated == {"0", "1", "3", "4", "5"}


def test_a_holder_among_many_without_names(site: Any) -> None:
    """With 400 containers that no file names, the one that holds a GPU has its name in the first scrape."""
    node, _ = site
    for n in range(400):
        node.group(f"system.slice/docker-{n:064x}.scope")
    last = "f" * 64
    node.group(f"system.slice/docker-{last}.scope", 13)
    node.file(f"root/var/lib/docker/containers/{last}/config.v2.json", '{"Name": "/train"}')
    held = series(run(site, "once").stdout, "gpuwait_gpu_workload_memory_bytes")
    assert [labels["workload"] for labels in held if labels["gpu"] == "7"] == ["train"]


def test_whois_tells_the_same(site: Any) -> None:
    """The four labels of a process in the metrics are what whois prints."""
    text = run(site, "once").stdout
    held = [
        tuple(labels[f"workload{part}"] for part in ("_kind", "_namespace", "", "_container"))
        for labels in series(text, "gpuwait_gpu_workload_memory_bytes")
    ]
    done = run(site, "whois", "--json", "11", "12", "13")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    told = [
        (a["kind"], a["namespace"] or "", a["workload"], a["container"] or a["slurm_step"]) for a in answers
    ]
    assert (
        told
        == held
        == [
            ("pod", "ml", "train-0", "main"),
            ("slurm", "", "77", "0"),
            ("container", "", "jupyter", "jupyter"),
        ]
    )
    assert [a["pod"] for a in answers] == ["train-0", None, None]
    assert [a["uid"] for a in answers] == [None, "1000", None]
    assert [a["gpus"] for a in answers] == [[GPUS[0]], [GPUS[4]], [GPUS[7]]]


def test_check_of_the_site(site: Any) -> None:
    """Each source of names is told; nothing is missing here."""
    text = run(site, "check").stdout
    assert "  kubelet logs    ok      /var/log/containers, /var/log/pods\n" in text
    assert "  docker          ok      /var/lib/docker/containers\n" in text
    assert "  kubelet socket  ok      6 devices given\n" in text
    assert "  slurm prolog    ok      3 GPUs given\n" in text
    assert "names: " not in text
    assert "owners: " not in text


def test_explain_names_those_who_were_given_a_gpu(site: Any) -> None:
    """A GPU that was given and is not used is idle, and its pod is named."""
    done = run(site, "explain", "--for", "3s", "--format", "json")
    rows = {tuple(row["gpus"]): row for row in json.loads(done.stdout)["explanations"]}
    (row,) = [row for gpus, row in rows.items() if 1 in gpus]
    assert row["verdict"] == "idle"
    assert [owner["workload"] for owner in row["workloads"]] == ["idle-0"]
    (free,) = [row for gpus, row in rows.items() if 2 in gpus]
    assert free["verdict"] == "free"
