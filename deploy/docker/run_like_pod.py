"""Runs a command in the tree of `deploy/docker/tree` as the pod of a DaemonSet would, without an engine.

    python deploy/docker/run_like_pod.py TREE deploy/kubernetes/gpuwait.yaml -- gpuwait check

Mounts, their modes, user, capabilities, escalation, process and network namespaces, environment and
arguments are those of the manifest. Namespaces and cgroup are as a runtime makes them. Not as there: the
seccomp filter, AppArmor, and masked files of the container's own /proc. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess  # noqa: TID251 - unshare, mount, setpriv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

#: Directories of the host that are the same for everybody: a tree with stand-ins does not have them.
KERNEL = ("/proc", "/sys")
EMPTY = ("proc", "sys", "dev", "tmp", "run", "var")
DEVICES = ("null", "zero", "full", "random", "urandom")
#: What runtimes mount read-only below the container's own /proc.
READ_ONLY_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
LOOPBACK = (
    "import fcntl, socket, struct; "
    "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0x49))"  # SIOCSIFFLAGS: up, running
)


@dataclass(frozen=True)
class Pod:
    """What the pod template grants.

    mounts: path of the host, path in the pod, read-only, propagation.
    """

    mounts: list[tuple[str, str, bool, str]]
    user: int
    group: int
    capabilities: list[str]
    may_escalate: bool
    read_only: bool
    host_pid: bool
    host_network: bool
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> Pod:
    """The pod of the one DaemonSet in a manifest. Raises ValueError for what cannot be imitated here."""
    found = [d for d in yaml.safe_load_all(path.read_text()) if d and d["kind"] == "DaemonSet"]
    if len(found) != 1:
        raise ValueError(f"{path}: {len(found)} DaemonSets instead of one")
    spec = found[0]["spec"]["template"]["spec"]
    container = spec["containers"][0]
    context = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
    if context.get("privileged") or "ALL" not in context["capabilities"]["drop"]:
        raise ValueError(f"{path}: only a container that drops all capabilities can be imitated")
    volumes = {v["name"]: v for v in spec["volumes"]}
    return Pod(
        mounts=[mount for m in container["volumeMounts"] for mount in _mount(volumes[m["name"]], m)],
        user=context["runAsUser"],
        group=context["runAsGroup"],
        capabilities=[name.lower() for name in context["capabilities"].get("add", [])],
        may_escalate=context.get("allowPrivilegeEscalation", True),
        read_only=context.get("readOnlyRootFilesystem", False),
        host_pid=spec.get("hostPID", False),
        host_network=spec.get("hostNetwork", False),
        command=["gpuwait", *container["args"]],
        env={e["name"]: e["value"] for e in container["env"]},
    )


def _mount(volume: dict[str, Any], mount: dict[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    kept = next((kind for kind in ("configMap", "secret") if kind in volume), "")
    if "hostPath" not in volume and not kept:
        raise ValueError(f"volume {volume['name']}: only hostPath, configMap and secret can be imitated")
    source = volume["hostPath"]["path"] if not kept else f"/volumes/{volume['name']}"
    propagation = {"HostToContainer": "rslave"}.get(mount.get("mountPropagation", ""), "rprivate")
    yield source, mount["mountPath"], mount.get("readOnly", False), propagation


def script(pod: Pod, tree: Path, stand_ins: Path | None, added: Sequence[str], command: Sequence[str]) -> str:
    """The commands that make the file system and become the command; for bash in new namespaces."""
    lines = [
        "set -e",
        f"cd {shlex.quote(str(tree))}",
        # A layer of its own, so that what is mounted upon leaves nothing in the tree.
        "mount -t tmpfs -o mode=755 layer run && cp -a bin sbin lib* etc run/ && cd run",
        f"mkdir {' '.join(EMPTY)} usr opt",
        "mount --rbind /usr usr && mount -o remount,bind,ro usr",
        "mount --bind ../opt opt && mount -o remount,bind,ro opt",
        "mount -t proc proc proc",
        f"for p in {' '.join(READ_ONLY_PROC)}; do [ ! -e proc/$p ] || "
        "{ mount --bind proc/$p proc/$p && mount -o remount,bind,ro proc/$p; }; done",
        "mount -t sysfs -o ro sysfs sys",
        "mount -t tmpfs -o mode=755 tmpfs dev && mkdir dev/shm",
        *(f"touch dev/{name} && mount --bind /dev/{name} dev/{name}" for name in DEVICES),
    ]
    for source, target, read_only, propagation in pod.mounts:
        whole = source if stand_ins is None or source.startswith(KERNEL) else f"{stand_ins}{source}"
        lines += _bind(whole, target, read_only=read_only, propagation=propagation)
    for pair in added:
        source, _, target = pair.partition(":")
        lines += _bind(source, target, read_only=True, propagation="rprivate")
    if pod.read_only:
        lines.append("mount -o remount,bind,ro .")
    if not pod.host_network:
        lines.append(f"/usr/bin/python3 -c {shlex.quote(LOOPBACK)}")
    lines += ["pivot_root . .", "umount -l .", "cd /"]
    bounding = ",".join(["-all", *(f"+{name}" for name in pod.capabilities)])
    become = [
        *"env -i setpriv --clear-groups --inh-caps=-all --ambient-caps=-all".split(),
        *([] if pod.may_escalate else ["--no-new-privs"]),
        *(f"--bounding-set={bounding}", f"--reuid={pod.user}", f"--regid={pod.group}", "env"),
        *(f"{name}={value}" for name, value in pod.env.items()),
        "PATH=/opt/gpuwait/bin:/usr/bin:/bin",
        *command,
    ]
    return "\n".join([*lines, f"exec {shlex.join(become)}"])


def _bind(source: str, target: str, *, read_only: bool, propagation: str) -> Iterator[str]:
    here, there = shlex.quote(target.lstrip("/")), shlex.quote(source)
    # A directory that the host does not have: the runtime makes it, here it is an empty one that goes again.
    yield f"[ -d {here} ] || mkdir -p {here}"
    yield f"if [ -e {there} ]; then mount --rbind {there} {here}; else mount -t tmpfs empty {here}; fi"
    yield f"mount --make-{propagation} {here}"
    if read_only:
        yield f"mount -o remount,bind,ro {here}"


@contextlib.contextmanager
def cgroups(name: str) -> Iterator[list[Path]]:
    """A cgroup of this name in each hierarchy of the host that takes one; gone afterwards."""
    top = Path("/sys/fs/cgroup")
    tops = [path for path in (top, *top.iterdir()) if (path / "cgroup.procs").exists()]
    tops = [top] if top in tops else tops
    made = []
    for path in tops:
        with contextlib.suppress(OSError):
            (path / name).mkdir()
            made.append(path / name)
    try:
        yield made
    finally:
        for path in made:
            for _ in range(20):
                with contextlib.suppress(OSError):
                    path.rmdir()
                    break
                time.sleep(0.05)


def start(pod: Pod, text: str, groups: Sequence[Path], **more: Any) -> subprocess.Popen[Any]:
    """Start it with bash, in namespaces of its own and in these cgroups."""
    spaces = ["--mount", "--uts", "--ipc", "--cgroup"]
    spaces += [] if pod.host_pid else ["--pid", "--fork"]
    spaces += [] if pod.host_network else ["--net"]
    join = "".join(f"echo $$ >{shlex.quote(str(g / 'cgroup.procs'))} 2>/dev/null || :\n" for g in groups)
    words = shlex.join(["unshare", *spaces, "bash", "-c", text])
    whole = f"{join}exec {words}"
    return subprocess.Popen(["/bin/bash", "-c", whole], **more)  # noqa: S603 - quoted above


def main(arguments: Sequence[str]) -> int:
    """The status of the command."""
    parser = argparse.ArgumentParser(description="Run a command as the pod of a DaemonSet would.")
    parser.add_argument("tree", type=Path)
    parser.add_argument("manifest", type=Path)
    stand_ins = "stand-ins for the host's directories but /proc and /sys; volumes/NAME for other volumes"
    parser.add_argument("--host", type=Path, help=stand_ins)
    added = "a directory that a runtime adds, as NVIDIA's does the driver's library"
    parser.add_argument("--add", action="append", default=[], metavar="SOURCE:TARGET", help=added)
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("command", nargs="*", help="default: the container's")
    given = parser.parse_args(arguments)
    if os.geteuid() != 0:
        parser.error("needs root, to make namespaces")
    try:
        pod = read(given.manifest)
    except ValueError as error:
        parser.error(str(error))
    pod.env.update(pair.split("=", 1) for pair in given.env)
    text = script(pod, given.tree.resolve(), given.host, given.add, given.command or pod.command)
    with cgroups(f"gpuwait-like-pod-{os.getpid()}") as groups:
        running = start(pod, text, groups)
        try:
            return running.wait()
        except KeyboardInterrupt:
            return running.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
