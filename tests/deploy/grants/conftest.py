"""The image's tree run as the pod that the chart renders, on a node with a GPU, a kubelet and a training pod.

That node is played: files of the kubelet and of the runtime below a root of their own, a fake NVML, and real
processes of another user in real cgroups.
"""

import contextlib
import dataclasses
import importlib.util
import json
import os
import signal
import socket
import subprocess  # noqa: TID251 - the pod's processes
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
NVML = ROOT / "build" / "fake-nvml"

#: Uid of the pod and id of the container: of one that trains, and of one that has a GPU and does nothing.
UID, IDLE_UID = f"7d3c1f52-6b1e-4b7a-9f5d-{os.getpid():012x}", f"2b9d6c10-3f4e-4a58-8c7d-{os.getpid():012x}"
ID, IDLE_ID = f"c0ffee{os.getpid():058x}", f"decade{os.getpid():058x}"
GPUS = ("GPU-9a3c5e71-0d42-5b66-8f10-2c4e6a8b0d12", "GPU-1b7be9d2-7a55-4c1d-9e0f-5d6c7b8a9e0f")


def field(number, content):
    """A field of protobuf with a length."""
    return bytes([number << 3 | 2, len(content)]) + content


#: ListPodResourcesResponse: the second GPU was given to the pod `idle-0` (field numbers of api.proto).
DEVICES = field(1, b"nvidia.com/gpu") + field(2, GPUS[1].encode())
CONTAINER = field(1, b"main") + field(2, DEVICES)
ANSWER = field(1, field(1, b"idle-0") + field(2, b"team") + field(3, CONTAINER))
#: `hold` opens files and sleeps, else a thread lends its memory to a child and waits for it in state D,
#: in wait_for_vfork_done. Each waits once for a disk, so that delay accounting shows that it counts it.
PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static void wait_for_disk(void) {
    char name[64];
    sprintf(name, "scratch/%d", (int)getpid());
    int file = open(name, O_CREAT | O_RDWR, 0600);
    for (int n = 0; n < 8; n++) { write(file, name, sizeof name); fsync(file); }
    close(file);
}
int main(int count, char **words) {
    wait_for_disk();
    for (int n = 0; count > 1 && n < 40; n++) open("/dev/null", O_RDONLY);
    if (count > 1 || vfork() == 0) { wait_for_disk(); for (;;) sleep(60); }
}
"""


def load(path):
    """A module from a file that is none of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


imitation = load(ROOT / "deploy" / "docker" / "run_like_pod.py")


@pytest.fixture(scope="session")
def like_pod():
    """deploy/docker/run_like_pod.py as a module."""
    return imitation


class Kubelet:
    """Answers every call of PodResources on a Unix socket."""

    def __init__(self, path):
        path.parent.mkdir(parents=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        import h2.config
        import h2.connection
        import h2.events

        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                with peer, contextlib.suppress(OSError):
                    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
                    connection.initiate_connection()
                    while piece := peer.recv(65536):
                        for event in connection.receive_data(piece):
                            if isinstance(event, h2.events.StreamEnded):
                                kind = ("content-type", "application/grpc")
                                connection.send_headers(1, [(":status", "200"), kind])
                                connection.send_data(1, b"\0" + len(ANSWER).to_bytes(4, "big") + ANSWER)
                                connection.send_headers(1, [("grpc-status", "0")], end_stream=True)
                        peer.sendall(connection.data_to_send())


def hierarchies():
    """Where cgroups can be made: the one tree of v2, or those of v1 and hybrid hosts that are read."""
    top = Path("/sys/fs/cgroup")
    if (top / "cgroup.procs").exists():
        return [top]
    names = ("unified", "memory", "cpu", "cpuacct", "cpu,cpuacct")
    found = [(top / name).resolve() for name in names if (top / name / "cgroup.procs").exists()]
    return list(dict.fromkeys(found))  # `cpu` may be a link to `cpu,cpuacct`


@contextlib.contextmanager
def workload(folder):
    """Processes of user 1000 in the cgroup of a pod: one holds a GPU, others are blocked. Its pid."""
    folder.chmod(0o755)
    (folder / "scratch").mkdir(mode=0o777)
    (folder / "scratch").chmod(0o777)
    (folder / "load.c").write_text(PROGRAM)
    subprocess.run(["cc", "-w", "-o", folder / "load", folder / "load.c"], check=True)
    groups = [top / "kubepods" / f"pod{UID}" / ID for top in hierarchies()]
    idle = [top / "kubepods" / f"pod{IDLE_UID}" / IDLE_ID for top in hierarchies()]
    for group in groups + idle:
        group.mkdir(parents=True)
    join = "".join(f"echo $$ >{g}/cgroup.procs; " for g in groups)
    one = "setpriv --reuid=1000 --clear-groups ./load"
    run = f"{join}for i in 1 2 3 4 5 6 7 8; do {one} & done; exec {one} hold"
    process = subprocess.Popen(["bash", "-c", run], start_new_session=True, cwd=folder)
    try:
        time.sleep(1)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end = time.monotonic() + 5
        for path in [p for g in idle + groups for p in (g, g.parent, g.parent.parent)]:
            while path.exists() and time.monotonic() < end:
                with contextlib.suppress(OSError):
                    path.rmdir()
                    break
                if any(path.glob("*/")):  # somebody else's pods
                    break
                time.sleep(0.05)


def gpu(index, *pids):
    calls = {
        "nvmlDeviceGetUtilizationRates": {"gpu": 41, "memory": 12},
        "nvmlDeviceGetMemoryInfo": {"total": 1000, "used": 400, "free": 600},
        "nvmlDeviceGetComputeRunningProcesses_v3": [{"pid": pid, "usedGpuMemory": 300} for pid in pids],
    }
    return {"index": index, "uuid": GPUS[index], "name": "H100", "minor": index, "calls": calls}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Stand-ins for the host's files, a kubelet, a workload; delay accounting is on. (root, pid)."""
    if not (NVML / "libnvidia-ml.so.1").exists():
        pytest.skip("needs build/fake-nvml: make fake-nvml")
    switch = Path("/proc/sys/kernel/task_delayacct")
    before = switch.read_text()
    switch.write_text("1")
    root = tmp_path_factory.mktemp("node")
    (root / "var/log/containers").mkdir(parents=True)
    for pod, uid, identity in (("train-0", UID, ID), ("idle-0", IDLE_UID, IDLE_ID)):
        (root / f"var/log/containers/{pod}_team_main-{identity}.log").symlink_to("/nowhere")
        (root / f"var/log/pods/team_{pod}_{uid}").mkdir(parents=True)
    bundle = root / "run/containerd/io.containerd.runtime.v2.task/k8s.io" / ID
    bundle.mkdir(parents=True, mode=0o700)
    names = {"name": "train-0", "namespace": "team"}
    notes = {f"io.kubernetes.cri.sandbox-{key}": value for key, value in names.items()}
    notes["io.kubernetes.cri.container-name"] = "main"
    (bundle / "config.json").write_text(json.dumps({"annotations": notes}))
    (root / "run/udev/data").mkdir(parents=True)
    for disk in Path("/sys/block").iterdir():
        number = (disk / "dev").read_text().strip()
        (root / f"run/udev/data/b{number}").write_text("E:ID_MODEL=Stand-In\n")
    (root / "run/exporter").mkdir()
    (root / "run/exporter/1").write_text('{"SLURM_JOB_ID": "742"}')
    kubelet = Kubelet(root / "var/lib/kubelet/pod-resources/kubelet.sock")
    try:
        with workload(root) as pid:
            state = {"library": "ok", "nvmlInit_v2": "NVML_SUCCESS", "driver_version": "570.86.15"}
            state |= {"device_count": 2, "devices": [gpu(0, pid), gpu(1)]}
            (root / "nvml").mkdir()
            (root / "nvml/state.json").write_text(json.dumps(state))
            yield root, pid
    finally:
        kubelet.socket.close()
        switch.write_text(before)


class Runner:
    """Runs commands as the pod would: `run(pod, *command)`."""

    def __init__(self, root, tree):
        self.root, self.tree = root, tree

    def text(self, pod, command):
        pod = dataclasses.replace(
            pod, env={**pod.env, "LD_LIBRARY_PATH": "/nvidia", "FAKE_NVML_STATE": "/nvml/state.json"}
        )
        # As NVIDIA's runtime adds the driver's library.
        added = [f"{NVML}:/nvidia", f"{self.root}/nvml:/nvml"]
        return imitation.script(pod, self.tree, self.root, added, command)

    def run(self, pod, *command):
        """Status, output and errors of a command."""
        with imitation.cgroups(f"gpuwait-grants-{os.getpid()}") as groups:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
            running = imitation.start(pod, self.text(pod, command), groups, **pipes)
            try:
                out, err = running.communicate(timeout=60)
            finally:
                running.kill()
        return running.returncode, out, err


@pytest.fixture(scope="module")
def runner(node, tree):
    """Commands in the tree of the image."""
    return Runner(node[0], tree)


@pytest.fixture(scope="module")
def granted(render, tmp_path_factory):
    """`granted(values)`: the pod that the chart renders."""

    def read(values=None):
        path = tmp_path_factory.mktemp("manifest") / "all.yaml"
        path.write_text(yaml.safe_dump_all(render(values)))
        return imitation.read(path)

    return read


@pytest.fixture
def plain(node):
    """`plain(*command)`: what it prints on the host itself, as plain root, with the same files."""
    root = node[0]
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": str(NVML),
        "FAKE_NVML_STATE": f"{root}/nvml/state.json",
        "GPUWAIT_PATH_ROOTFS": str(root),
        "GPUWAIT_PATH_UDEV_DATA": f"{root}/run/udev/data",
    }

    def run(*command):
        words = [sys.executable, "-m", "gpuwait", *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env, check=False)
        return done.stdout

    return run
