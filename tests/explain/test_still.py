"""What is said of GPUs that are held or given and not worked with."""

import pytest

from gpuwait.explain import build, markdown
from gpuwait.explain.text import text
from gpuwait.wait.snapshot import Gpu, Host, Snapshot, Thread, Workload
from gpuwait.wait.verdict import GpuVerdict, State, Verdict

UID = "0c1f8a52-77b1-4a3e-9f60-1d2e3c4b5a69"


def report(*keys, since=0, in_use=True, cgroup=True):
    """Sixty seconds of one GPU, busy for the first ones; the workload uses 0.6 % of a CPU."""

    def shot(at):
        threads = {
            100 + i: Thread(
                at * 0.003 if not i else 0.0, at * 0.003 if not i else 0.0, name="python3", state="S"
            )
            for i in range(3)
        }
        load = Workload(threads, 5, cpu_seconds=at * 0.006 if cgroup else None)
        gpu = Gpu(0, "u", in_use=in_use, workloads=keys)
        return Snapshot(at, Host(), (gpu,), dict.fromkeys(keys, load))

    busy = GpuVerdict(0, "u", {State.BUSY: 0.9, State.GAP: 0.1}, None, 0.9, (), keys)
    idle = GpuVerdict(0, "u", {State.BUSY: 0.2, State.IDLE: 0.8}, None, 0.2, (), keys)
    ticks = [Verdict(100.0 + at, 1.0, (busy if at <= since else idle,)) for at in range(1, 61)]
    return build(ticks, shot(160.0), shot(150.0))


@pytest.mark.parametrize(
    ("key", "command"),
    [
        (("pod", "ml", "nb-0", "c"), "kubectl -n ml delete pod nb-0"),
        (("slurm", "", "4711", "0"), "scancel 4711"),
        (("service", "", "jupyter.service", ""), "systemctl stop jupyter.service"),
        (("container", "", "abcdef012345", ""), "docker stop abcdef012345"),
        (
            ("other", "", "", ""),
            "ps -o user,lstart,args -p $(awk '/^Tgid:/ {print $2}' /proc/100/status)",
        ),
        (
            ("pod", "", UID, "c"),
            "kubectl get pods -A -o custom-columns=NS:.metadata.namespace,POD:.metadata.name,"
            f"UID:.metadata.uid | grep {UID}",
        ),
        (("slurm", "", "-x\x1b", ""), ""),
    ],
)
def test_one_command_that_fits_the_owner(key, command):
    """A known owner gets one command, with its real names; without them none with words to fill in."""
    (row,) = report(key).explanations
    assert row.verdict == "idle"
    assert [action.command for action in row.fix_now] == [command]


def test_two_owners():
    """Each of two workloads that share a GPU gets its own."""
    (row,) = report(("slurm", "", "1", ""), ("pod", "a", "b", "c")).explanations
    assert [action.command for action in row.fix_now] == ["scancel 1", "kubectl -n a delete pod b"]


@pytest.mark.parametrize("cgroup", [True, False])
def test_evidence(cgroup):
    """CPU of the workload, what its threads do, and since when."""
    (row,) = report(("slurm", "", "1", ""), since=20, cgroup=cgroup).explanations
    assert [(fact.signal, fact.shown) for fact in row.evidence] == [
        ("cpu", "0.6 % of a CPU"),
        ("threads", "3 of 5 sleeping; 2 not looked at"),
        ("since", "for 40 s"),
    ]
    told = " ".join(text(report(("slurm", "", "1", ""))).split())
    assert "- 0.6 % of a CPU: CPU time of the workload" in told
    assert "- for 60 s or longer: idle up to now" in told


def test_processes_that_cannot_be_seen():
    """Nothing is made up of a workload that nobody saw, and nobody is told to end it."""
    found = report()
    (row,) = found.explanations
    assert row.verdict == "idle"
    for told in (text(found), markdown(found)):
        assert "held by processes that cannot be seen from here" in " ".join(told.split())
        assert "hostPID: true" in " ".join(told.split())
        for words in ("neither runs", "kubectl", "scancel", "systemctl stop", "OWNER"):
            assert words not in told, words
    assert [fact.signal for fact in row.evidence] == ["since"]


def test_given_to_a_known_pod_and_not_opened():
    """Whose it is stands beside it, and that its owner is to be asked."""
    (row,) = report(("pod", "ml", "idle-0", "main"), in_use=False).explanations
    assert row.meaning == "The GPU is given to a pod or job, and no process has opened it."
    assert [str(owner) for owner in row.workloads] == ["pod ml/idle-0 (container main)"]
    assert [action.command for action in row.fix_now] == ["kubectl -n ml delete pod idle-0"]


def test_given_and_not_opened():
    """A GPU that no process holds is not held by hidden ones."""
    (row,) = report(in_use=False).explanations
    assert row.meaning == "The GPU is given to a pod or job, and no process has opened it."
