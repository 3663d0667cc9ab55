"""What the chart grants is enough for all that the node has; one that is missing costs what is said."""

import dataclasses
import re
import subprocess  # noqa: TID251 - unshare
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.fake_nvml]

#: What a plain root on the host has and the pod has not: the pod mounts them only where a value asks for it.
NOT_BY_DEFAULT = {"containerd", "slurm prolog"}
#: Losses that are the kernel's or the workload's, whoever looks.
OF_THE_NODE = ("delay accounting covers", "psi=1")
V2 = "mount -t cgroup2 cgroup2 /sys/fs/cgroup"
BLOCKED = "wait causes: writeback blocked, nfs blocked, lustre blocked, gpfs blocked, disk blocked"
DELAYS = "wait causes: compaction delay, reclaim delay, swap delay"


def parts(said):
    """Of `gpuwait check`: state by source, state by source of names, and why things are lost, by thing."""
    sources, rest = said.split("\nNames and owners\n")
    names, _, rest = rest.partition("\nLost, and what brings it back\n")
    table = [
        dict(re.findall(r"^  (\S+(?: \S+)*?) +(ok|partly|absent|fails)\b", text, re.MULTILINE))
        for text in (sources, names)
    ]
    lost, what = {}, ""
    for line in rest.partition("\nRisky settings")[0].splitlines():
        if line.startswith("      "):
            lost[what] += f" {line.strip()}"
        elif line.startswith("  "):
            what = line.strip()
            lost[what] = ""
    # Other containers of this host come and go while we look.
    return *table, {what: why for what, why in lost.items() if "containers are known by their id" not in what}


def series(text):
    """Names and labels of a scrape, without the interpreter's version."""
    lines = {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    return {line for line in lines if "version" not in line}


def without(pod, capability):
    return dataclasses.replace(pod, capabilities=[c for c in pod.capabilities if c != capability])


def unmounted(pod, *paths):
    return dataclasses.replace(pod, mounts=[m for m in pod.mounts if m[0] not in paths])


@pytest.fixture(scope="module")
def checked(runner):
    """`checked(pod)`: the parts of what `gpuwait check` says there."""

    def run(pod):
        status, out, err = runner.run(pod, "gpuwait", "check")
        assert status in (0, 1), err
        return parts(out)

    return run


@pytest.fixture(scope="module")
def whole(checked, granted):
    """The parts with all that the chart grants."""
    return checked(granted())


def test_the_process_has_what_the_manifest_says(runner, granted):
    """Three capabilities in every set that matters, root, no escalation, nothing to write to."""
    code = "cat /proc/self/status; for p in /x /tmp/x /proc/sys/vm/swappiness /host/root/x; do : >>$p; done"
    _, out, err = runner.run(granted(), "bash", "-c", code)
    fields = dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)
    # CAP_DAC_READ_SEARCH 2, CAP_NET_ADMIN 12, CAP_SYS_PTRACE 19
    assert fields["CapEff"] == fields["CapPrm"] == fields["CapBnd"] == "0000000000081004"
    assert fields["CapAmb"] == fields["CapInh"] == "0000000000000000"
    assert fields["NoNewPrivs"] == "1"
    assert fields["Uid"].split()[0] == "0"
    assert err.count("Read-only file system") == 4


def test_everything_that_this_node_has_is_there(whole, plain):
    """Source by source the same as plain root on the host, and nothing is lost but what the node lacks."""
    sources, names, lost = whole
    on_host = parts(plain("check"))
    assert sources == on_host[0]
    assert sources["gpu"] == sources["ledger"] == sources["workload"] == sources["cgroup"] == "ok"
    assert names["kubelet logs"] == names["kubelet socket"] == "ok"
    assert {k: v for k, v in names.items() if k not in NOT_BY_DEFAULT} == {
        k: v for k, v in on_host[1].items() if k not in NOT_BY_DEFAULT
    }
    assert lost.keys() == on_host[2].keys()
    assert [why for why in lost.values() if not any(text in why for text in OF_THE_NODE)] == []


def test_every_series_of_the_host_is_there(runner, granted, plain):
    """Name by name and label by label; of disks the pod knows what udev's stand-ins tell."""
    status, out, err = runner.run(granted({"slurm": {"enabled": True}}), "gpuwait", "once")
    assert status == 0, err
    ours = {re.sub('model="[^"]*"', "", line) for line in series(out)}
    theirs = {re.sub('model="[^"]*"', "", line) for line in series(plain("once"))}
    assert len(ours) > 300
    # Other workloads of this host come and go while we look.
    mine = {line for line in theirs ^ ours if "workload=" not in line or 'namespace="team"' in line}
    assert mine == set()
    assert 'model="Stand-In"' in out


def test_names_of_pods_and_owners_of_gpus_are_known(runner, granted, node):
    """By name in metrics and in whois, from inside a cgroup namespace of its own."""
    _, out, _ = runner.run(granted(), "gpuwait", "once")
    labels = 'workload_kind="pod",workload_namespace="team",workload="{}",workload_container="main"'
    assert labels.format("train-0") in out
    assert re.search(rf'gpuwait_gpu_workload_info\{{gpu="1",[^}}]*{labels.format("idle-0")}', out)
    assert re.search(r'gpuwait_gpu_allocated\{gpu="1",[^}]*\} 1\n', out)
    _, said, _ = runner.run(granted(), "gpuwait", "whois", str(node[1]))
    assert f"{node[1]}: pod team/train-0 container main" in said


@pytest.mark.parametrize(
    ("capability", "source", "what", "why"),
    [
        ("sys_ptrace", None, BLOCKED, "wait channels read 0: needs CAP_SYS_PTRACE"),
        ("net_admin", None, DELAYS, "needs CAP_NET_ADMIN in the initial user namespace"),
        (
            "dac_read_search",
            "workload",
            "workload: /proc/PID/fd of GPU processes",
            "open files of GPU workloads of other users",
        ),
    ],
)
def test_a_capability_that_is_missing_is_named(checked, granted, whole, capability, source, what, why):
    """What is lost is said, and everything else goes on."""
    sources, names, lost = checked(without(granted(), capability))
    assert why in lost[what]
    assert {k: v for k, v in lost.items() if k != what} == {k: v for k, v in whole[2].items() if k != what}
    assert {k for k in sources if sources[k] != whole[0][k]} == ({source} if source else set())
    assert names == whole[1]


def test_without_any_capability_it_still_serves_what_it_can(checked, granted, whole):
    """All three losses at once, and the host's counters as before."""
    sources, names, lost = checked(dataclasses.replace(granted(), capabilities=[]))
    assert {BLOCKED, DELAYS} <= lost.keys()
    assert {k for k in sources if sources[k] != whole[0][k]} == {"workload"}
    assert names == whole[1]


def test_another_user_gets_none_of_the_capabilities(runner, checked, granted):
    """So it is root: without ambient capabilities those that are added do not reach user 65534."""
    pod = dataclasses.replace(granted(), user=65534, group=65534)
    _, out, _ = runner.run(pod, "cat", "/proc/self/status")
    assert "CapEff:\t0000000000000000" in out
    _, names, lost = checked(pod)
    assert names["kubelet socket"] == "fails"
    assert "it takes root or CAP_DAC_OVERRIDE" in lost["owners: GPUs that are given to pods and not used"]
    assert BLOCKED in lost


@pytest.mark.parametrize(
    ("path", "name", "state"),
    [
        ("/var/log/containers", None, None),
        ("/var/log/pods", None, None),
        ("/run/udev/data", None, None),
        ("/var/lib/kubelet/pod-resources", "kubelet socket", "absent"),
    ],
)
def test_a_mount_that_is_missing_costs_itself_only(checked, granted, whole, path, name, state):
    """No source of measurements changes; of the names at most its own."""
    sources, names, lost = checked(unmounted(granted(), path))
    assert sources == whole[0]
    assert {k: v for k, v in names.items() if v != whole[1][k]} == ({name: state} if name else {})
    assert lost == whole[2]


def test_what_each_mount_tells(runner, granted):
    """The labels that come with it, and are empty or an id without it."""

    def once(pod):
        return runner.run(pod, "gpuwait", "once")[1]

    pod = granted()
    logs = ("/var/log/containers", "/var/log/pods")
    assert 'workload="train-0"' not in once(unmounted(pod, *logs))
    assert 'workload="train-0"' in once(unmounted(pod, logs[0]))
    assert 'workload="train-0"' in once(unmounted(pod, logs[1]))
    assert "gpuwait_gpu_allocated{" not in once(unmounted(pod, "/var/lib/kubelet/pod-resources"))
    assert "Stand-In" not in once(unmounted(pod, "/run/udev/data"))
    bundles = granted({"runtime": "containerd", "kubelet": {"logs": False}})
    assert 'workload="train-0"' in once(bundles)


def test_pods_without_names_are_said_to_be_so(checked, granted, whole):
    """Without the kubelet's logs `check` names the two directories."""
    _, names, lost = checked(unmounted(granted(), "/var/log/containers", "/var/log/pods"))
    (what,) = lost.keys() - whole[2].keys()
    assert re.fullmatch(r"names: \d+ of \d+ pods are known by their uid only", what)
    assert "make /var/log/containers and /var/log/pods of the host readable" in lost[what]
    assert names["kubelet logs"] == "absent"


def test_the_hosts_network_and_mounts_are_read_through_process_1(runner, granted):
    """The pod has a network of its own, and as root it needs no capability for process 1's mountstats."""
    pod = dataclasses.replace(granted(), capabilities=[])
    here = Path("/proc/1/net/dev").read_text().count(":")
    code = "grep -c : /proc/net/dev; grep -c : /proc/1/net/dev; grep -c ^device /proc/1/mountstats"
    own, host, mounts = map(int, runner.run(pod, "bash", "-c", code)[1].split())
    assert (own, host) == (1, here)
    assert mounts == Path("/proc/1/mountstats").read_text().count("device ")


def test_without_the_hosts_processes_it_says_so(checked, granted, whole):
    """hostPID is what workloads are found by; the node's own counters go on."""
    sources, _, lost = checked(dataclasses.replace(granted(), host_pid=False))
    said = " ".join(f"{what} {why}" for what, why in lost.items())
    assert "hostPID" in said
    assert {k for k in sources if sources[k] != whole[0][k]} <= {
        *("workload", "gpu", "ledger", "cgroup"),
        "kernel_threads",
    }


def test_without_sys_it_does_not_start_and_names_the_option(runner, granted):
    """Nothing could be measured; one line says which directory is missing."""
    pod = granted()
    pod = unmounted(pod, *(source for source, *_ in pod.mounts if source.startswith("/sys")))
    status, out, err = runner.run(pod, "gpuwait", "check")
    assert (status, out) == (2, "")
    assert err == (
        "gpuwait: --path.sysfs: /host/sys: No such file or directory; it must be a readable directory\n"
    )


def test_nothing_of_the_host_is_mounted_for_writing(runner, granted):
    """No mount below /host is writable, but hierarchies of cgroup v1, which are mounts below a mount."""
    _, out, err = runner.run(granted(), "cat", "/proc/self/mountinfo")
    mounts = [line.split() for line in out.splitlines()]
    assert sum(m[4].startswith("/host") for m in mounts) >= 8, err
    writable = {m[4] for m in mounts if m[4].startswith("/host") and "ro" not in m[5].split(",")}
    assert {path for path in writable if not path.startswith("/host/sys/fs/cgroup/")} == set()
    assert "binfmt_misc" not in out
    assert "debugfs" not in out


def test_directories_that_the_host_does_not_have_do_not_matter(checked, granted, whole, tree, node):
    """A node with neither kubelet nor CRI-O nor udev: the pod starts, they are absent, all else goes on."""
    pod = granted({"runtime": "crio", "kubelet": {"podResourcesDirectory": "/data/kubelet/pod-resources"}})
    sources, names, lost = checked(pod)
    assert sources == whole[0]
    assert names["cri-o"] == "ok"  # an empty directory
    assert names["kubelet socket"] == "fails"
    assert "no such socket" in str(lost)


def test_the_cgroup_tree_is_read_only_for_root(like_pod, runner, granted):
    """On a host with cgroup v2: root owns its files, and only the mount of its own closes them."""
    pod = granted()
    made = "/sys/fs/cgroup/gpuwait-grants-made"
    code = "echo 0 >/host/sys/fs/cgroup/gpuwait-grants-made/cgroup.freeze"

    def said(pod):
        # This host may be a hybrid: a mount namespace in which v2 stands in its place.
        text = f"{V2} && mkdir -p {made}\n{runner.text(pod, ['bash', '-c', code])}"
        process = like_pod.start(pod, text, [], stderr=subprocess.PIPE, encoding="utf-8")
        return process.communicate(timeout=30)[1]

    try:
        assert "Read-only file system" in said(pod)
    finally:
        subprocess.run(["unshare", "--mount", "bash", "-c", f"{V2} && rmdir {made}"], check=True)
