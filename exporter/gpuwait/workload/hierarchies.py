"""Where the cgroup hierarchies of a host are: v1, v2 and hybrid, mounted where they belong or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwait.host import Host, names
from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.mountinfo import Mount, parse_mountinfo

#: Types of file systems that have no device and no server behind them.
NEVER_HANG = frozenset({"cgroup", "cgroup2", "tmpfs", "devtmpfs", "sysfs"})

TOP = "fs/cgroup"
#: v1 controllers that are read; `unified` is the v2 hierarchy.
ROLES = ("unified", "cpu", "cpuacct", "memory")
#: First directories of a v1 or hybrid host that no v2 tree has.
V1_NAMES = frozenset(
    {"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "net_cls", "net_prio"}
    | {"perf_event", "hugetlb", "rdma", "misc", "systemd", "unified"}
)


def top(host: Host, root: str) -> str:
    """Whole path of the root of a hierarchy: below rootfs where it begins with a slash, else below sysfs."""
    return f"{host.rootfs.rstrip('/')}{root}" if root.startswith("/") else f"{host.sysfs}/{root}"


def find_hierarchies(host: Host) -> dict[str, tuple[str, ...]]:
    """Directories that are roots of cgroup hierarchies, with the roles of each.

    They are below sysfs, or, beginning with a slash, below the root of the host's file system.
    A role is `unified` or a v1 controller: `{"fs/cgroup/cpu,cpuacct": ("cpu", "cpuacct")}`.
    From mountinfo of process 1, or by looking where that says nothing, as in a captured tree.
    Raises OSError.
    """
    found = _mounted(host) or _seen(host)
    roots: dict[str, tuple[str, ...]] = {}
    for role in ROLES:
        if role in found:
            roots[found[role]] = (*roots.get(found[role], ()), role)
    return roots


def _mounted(host: Host) -> dict[str, str]:
    found: dict[str, str] = {}
    for process in ("1", "self"):
        try:
            text = host.maybe_proc(f"{process}/mountinfo") or ""
        except PermissionError:  # hidepid shows a process its own only
            continue
        # A node with many pods has thousands of mounts; a handful of them matter.
        lines = [line for line in text.split("\n") if " - cgroup" in line]
        try:
            mounts = parse_mountinfo("\n".join(lines))
            found = _roles((mount, _below_sysfs(host, mount.mountpoint)) for mount in mounts)
            if mounts and not found:
                everything = parse_mountinfo(text)
                found = _roles((mount, _elsewhere(mount.mountpoint, everything)) for mount in mounts)
        except ParseError:
            continue
        if found:
            break
    # The mountinfo of a captured host may speak of trees that were not captured with it.
    return {role: path for role, path in found.items() if names(top(host, path))}


def _roles(mounts: Iterable[tuple[Mount, str | None]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for mount, directory in mounts:
        if directory is None:
            continue
        if mount.filesystem_type == "cgroup2":
            found["unified"] = directory
        elif mount.filesystem_type == "cgroup":
            found.update(dict.fromkeys(set(mount.super_options.split(",")) & set(ROLES), directory))
    return found


def _elsewhere(mountpoint: str, mounts: Sequence[Mount]) -> str | None:
    """The mount point of a hierarchy outside sysfs, as on EL 6 (`/cgroup/cpuacct`).

    This is the one place where a path from mountinfo is opened. A cgroup file system never hangs,
    but one that lies on the way to it or on top of it could: then it is left alone.
    """
    if not mountpoint.startswith("/") or ".." in mountpoint.split("/"):
        return None
    way = [m for m in mounts if f"{mountpoint}/".startswith(f"{m.mountpoint.rstrip('/')}/")]
    local = all(
        m.filesystem_type in NEVER_HANG or (m.mountpoint == "/" and not m.filesystem_type.startswith("nfs"))
        for m in way
    )
    return mountpoint if local else None


def _below_sysfs(host: Host, mountpoint: str) -> str | None:
    for prefix in ("/sys/", f"{host.sysfs}/"):
        path = mountpoint.removeprefix(prefix)
        if path != mountpoint and (path == TOP or path.startswith(f"{TOP}/")) and ".." not in path:
            return path
    return None


def _seen(host: Host) -> dict[str, str]:
    if host.maybe_sys(f"{TOP}/cgroup.controllers") is not None:
        return {"unified": TOP}
    tops = host.subdirectories(TOP)
    found: dict[str, str] = {}
    for name in tops:
        # The order of joined controllers differs between distributions.
        found.update(dict.fromkeys(set(name.split(",")) & set(ROLES), f"{TOP}/{name}"))
    if not found and not any(V1_NAMES & set(name.split(",")) for name in tops):
        return {"unified": TOP} if tops else {}
    return found
