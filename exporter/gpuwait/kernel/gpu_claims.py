"""Which device a text names that says to whom a GPU is given.

| text | written by |
|------|-----------|
| `GPU-<uuid>`, `MIG-<uuid>`, `MIG-GPU-<uuid>/<gi>/<ci>` | NVIDIA's device plugin |
| the same and `::<n>`                        | its time slices and MPS shares |
| the same and `-<n>`                         | HAMi's device plugin: a share |
| `nvidia0`, `nvidia0/vgpu1`, `nvidia0/gi1`, `nvidia0/gi1/vgpu2` | GKE's device plugin: minor number |
| `gpu-0`, `gpu-0-mig-1g5gb-19-4`, `gpu-0-mig-19-4-1` | NVIDIA's driver for dynamic resources: minor number |
| `0000:83:00.0`                              | AMD's device plugin |
| `Ascend910-3`                               | Huawei's device plugin |
| `3`, `3.7`                                  | Slurm prologs for dcgm-exporter: index, GPU instance |

Texts of the device plugins: kubernetes PodResources, `ContainerDevices.device_ids`. HAMi chooses the GPU
itself; before its PR #1743 the kubelet could name others (HAMi#1741).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["uuid", "mig", "minor", "pci", "index"]

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_SHARE = r"(?P<shared>::[0-9]{1,6}|-[0-9]{1,6})?"
_SHAPES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("uuid", re.compile(rf"(GPU-{_UUID}){_SHARE}")),
    ("mig", re.compile(rf"(MIG-{_UUID}){_SHARE}")),
    ("uuid", re.compile(rf"MIG-(GPU-{_UUID})(?P<shared>/[0-9]{{1,3}}/[0-9]{{1,3}}(?:::[0-9]{{1,6}})?)")),
    ("minor", re.compile(r"nvidia([0-9]{1,4})(?P<shared>(?:/gi[0-9]{1,3})?(?:/vgpu[0-9]{1,4})?)")),
    ("minor", re.compile(r"gpu-([0-9]{1,4})(?P<shared>-mig-[0-9a-z-]{1,63})?")),
)
_CLAIM = re.compile(rf"{_UUID}-")
_PCI = re.compile(r"([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?P<shared>::[0-9]{1,6})?")
_ASCEND = re.compile(r"Ascend[0-9A-Za-z]{1,16}-([0-9]{1,4})(?P<shared>)")
_INDEX = re.compile(r"([0-9]{1,4})(?P<shared>\.[0-9]{1,3})?")
_JOB = re.compile(r"[0-9]{1,20}(?:_[0-9]{1,20})?|s[0-9A-Z]{8,20}")
#: Jobs that share one GPU, as far as is told.
MOST_JOBS = 64


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or a part of one.

    kind:   how it is named: uuid, uuid of a MIG slice, minor number, PCI address or index.
    value:  the name; uuids and addresses in lower case but for the prefix.
    shared: it is a part, or others may be given the same.
    """

    kind: Kind
    value: str
    shared: bool = False


def parse_device(text: str, resource: str) -> Device | None:
    """The GPU that a device plugin means, None for another device (a network card, /dev/kvm).

    resource: its name, as `nvidia.com/gpu`. Sites rename shared ones, so that it decides only where
    the id could be that of anything.
    """
    for kind, shape in _SHAPES:
        if found := shape.fullmatch(text):
            return _device(kind, found)
    domain = resource.partition("/")[0]
    if domain == "amd.com" and (found := _PCI.fullmatch(text)):
        return _device("pci", found)
    if domain == "huawei.com" and (found := _ASCEND.fullmatch(text)):
        return _device("index", found)
    return None


def parse_dynamic(driver: str, name: str) -> Device | None:
    """The GPU of a dynamic resource: name of its device, or of a CDI device (`nvidia.com/gpu=0`)."""
    vendor, equals, rest = name.partition("=")
    domain = vendor.partition("/")[0] if equals else driver
    if not f".{domain}".endswith(".nvidia.com"):
        return None
    # CDI devices that are made for one claim begin with its uid.
    text = _CLAIM.sub("", rest, count=1) if equals else name
    found = _INDEX.fullmatch(text) if equals else None
    return _device("index", found) if found else parse_device(text, "")


def parse_job_file(name: str, text: str) -> tuple[Device, tuple[str, ...]] | None:
    """The GPU that a prolog's file is named after, and the Slurm jobs that it was given to.

    Either lines that begin with the id of a job, `742` or `742_3` or its SLUID, or a JSON object with
    `SLURM_JOB_ID`. None for a file of another kind.
    """
    found = _INDEX.fullmatch(name)
    device = _device("index", found) if found else parse_device(name, "")
    if device is None:
        return None
    text = text.strip()
    if text.startswith("{"):
        words = [_job_of_object(text)]
    else:
        words = [line.split(None, 1)[0] for line in text.split("\n")[: 4 * MOST_JOBS] if line.strip()]
    jobs = [word for word in dict.fromkeys(words) if _JOB.fullmatch(word)]
    return device, tuple(jobs[:MOST_JOBS])


def _job_of_object(text: str) -> str:
    try:
        job = json.loads(text).get("SLURM_JOB_ID")
    except (ValueError, RecursionError):
        return ""
    return str(job) if isinstance(job, str | int) else ""


def _device(kind: Kind, found: re.Match[str]) -> Device:
    value = found[1]
    if kind in {"uuid", "mig"}:
        value = f"{value[:4]}{value[4:].lower()}"
    return Device(kind, value.lower() if kind == "pci" else value, bool(found["shared"]))
