"""What advice consists of.

A command holds words in capitals where a person must fill in. Some are filled
in where the verdict knows better: `{it}` is the mount, device or port it names,
`{tid}` the busiest thread and `{pid}` its process, `{numa}` the GPU's NUMA
node, `{namespace}` and `{owner}` the pod, job or unit that holds the GPU, `{uid}` a pod whose name is not
known. A threshold is `{cause.signal}`, in prose: the one that is in force is put in.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.wait.verdict import Cause


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: a sentence, and the command where there is one.

    kinds: sorts of workload it applies to (pod, container, slurm, service, other); empty for all.
    """

    text: str
    command: str = ""
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verify:
    """How to see that a fix works: which number must move, and the command and the PromQL that show it."""

    number: str
    command: str
    query: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Everything to say about one cause.

    took:    what the time went into: "... took N % of the time".
    means:   one sentence on the mechanism.
    runbook: file and anchor below alerts/runbooks.
    estimated: the kernel does not measure the time that it costs.
    """

    took: str
    means: str
    now: tuple[Step, ...]
    good: tuple[Step, ...]
    verify: Verify
    runbook: str
    estimated: bool = False


def runbook(cause: Cause) -> str:
    """Page and section of a cause."""
    return f"GPUWaiting.md#{cause}"
