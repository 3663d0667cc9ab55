"""Changes to the host that undo themselves: settings, a container's cgroup, a swap device."""

import contextlib
import os
import subprocess  # noqa: TID251 - mkswap, swapon and swapoff are programs
import time
from pathlib import Path

CONTAINER = "5ca1ab1e" * 8
GROUP = f"docker/{CONTAINER}"
#: Controllers of v1 that are part of another one in v2.
ON_V2 = {"cpuacct": "cpu"}


def read(path):
    return Path(path).read_text()


def write(path, value):
    Path(path).write_text(str(value))


def counters(path="/proc/vmstat"):
    return {key: int(value) for key, value in (line.split() for line in read(path).splitlines())}


def free_mib():
    line = next(line for line in read("/proc/meminfo").splitlines() if line.startswith("MemFree:"))
    return int(line.split()[1]) // 1024


def chosen(path):
    """The value in force, also of a file such as `always [madvise] never`."""
    text = read(path).strip()
    return text[text.index("[") + 1 : text.index("]")] if "[" in text else text


@contextlib.contextmanager
def setting(path, value):
    """Write a setting for the time of the block."""
    old = chosen(path)
    try:
        write(path, value)
        yield
    finally:
        write(path, old)


class Group:
    """A cgroup that looks like a Docker container, in every hierarchy that matters; removed by the stack."""

    def __init__(self, stack, controllers):
        mounts = [line.split() for line in read("/proc/self/mounts").splitlines()]
        self.paths, self.version = {}, 1
        v2 = [m[1] for m in mounts if m[2] == "cgroup2"]
        for controller in controllers:
            owners = [m[1] for m in mounts if m[2] == "cgroup" and controller in m[3].split(",")]
            if not owners:
                self.version = 2
                owners = [
                    m
                    for m in v2
                    if ON_V2.get(controller, controller) in read(f"{m}/cgroup.controllers").split()
                ]
            if not owners:
                raise LookupError(f"no cgroup hierarchy offers {controller}")
            if self.version == 2:
                self._enable(stack, owners[0], ON_V2.get(controller, controller))
            self.paths[controller] = f"{owners[0]}/{GROUP}"
        if v2:
            self.paths["pressure"] = f"{v2[0]}/{GROUP}"
        for path in dict.fromkeys(self.paths.values()):
            self._make(stack, path)

    @staticmethod
    def _enable(stack, root, controller):
        os.makedirs(f"{root}/docker", exist_ok=True)
        for directory in (root, f"{root}/docker"):
            control = f"{directory}/cgroup.subtree_control"
            if controller not in read(control).split():
                write(control, f"+{controller}")
                stack.callback(_quietly, write, control, f"-{controller}")

    @staticmethod
    def _make(stack, path):
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            os.mkdir(parent)
            stack.callback(_remove, parent)
        try:
            os.mkdir(path)
        except FileExistsError:
            raise LookupError(f"{path} is there: another of these tests runs, or was killed") from None
        stack.callback(_remove, path)

    def join(self):
        for path in dict.fromkeys(self.paths.values()):
            write(f"{path}/cgroup.procs", os.getpid())

    def set(self, controller, v1_file, v2_file, value):
        write(f"{self.paths[controller]}/{v1_file if self.version == 1 else v2_file}", value)


def _quietly(function, *arguments):
    with contextlib.suppress(OSError):
        function(*arguments)


def _remove(path):
    for _ in range(100):  # an ending task keeps its group busy for a moment
        try:
            os.rmdir(path)
        except OSError:
            time.sleep(0.05)
        else:
            return


def add_swap(stack, mib):
    """A fresh zram device as swap. Raises LookupError where the kernel has none."""
    control = "/sys/class/zram-control"
    if not os.path.exists(control):
        subprocess.run(["modprobe", "zram", "num_devices=0"], check=False, capture_output=True)
    if not os.path.exists(control):
        raise LookupError("this kernel has no zram")
    number = int(read(f"{control}/hot_add"))
    stack.callback(write, f"{control}/hot_remove", number)
    name = f"zram{number}"
    write(f"/sys/block/{name}/disksize", mib << 20)
    stack.callback(write, f"/sys/block/{name}/reset", 1)
    end = time.monotonic() + 5
    while not os.path.exists(f"/dev/{name}") and time.monotonic() < end:
        time.sleep(0.05)
    for command in (["mkswap", f"/dev/{name}"], ["swapon", f"/dev/{name}"]):
        subprocess.run(command, check=True, capture_output=True)
    stack.callback(subprocess.run, ["swapoff", f"/dev/{name}"], check=True, capture_output=True)
