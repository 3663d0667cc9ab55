"""Answer of the kubelet's `v1.PodResourcesLister/List`: which device is given to which container.

Source: kubernetes, staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/api.proto. Of its messages these
fields are read, by number; others are skipped.

    ListPodResourcesResponse  pod_resources 1
    PodResources              name 1, namespace 2, containers 3
    ContainerResources        name 1, devices 2, dynamic_resources 5
    ContainerDevices          resource_name 1, device_ids 2
    DynamicResource           claim_resources 4
    ClaimResource             cdi_devices 1 (name 1), driver_name 2, device_name 4

The form is that of protobuf (https://protobuf.dev/programming-guides/encoding): key `number << 3 | type`,
then a varint (0), 8 bytes (1), a length and so many bytes (2), or 4 bytes (5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.gpu_claims import Device, parse_device, parse_dynamic

#: A node has 250 pods with 16 GPUs, of which each may be cut into 64 parts.
MOST = 4096


@dataclass(frozen=True, slots=True)
class Grant:
    """A device that a container of a pod was given."""

    namespace: str
    pod: str
    container: str
    device: Device


def parse_pod_resources(answer: bytes) -> list[Grant]:
    """GPUs by container; other devices are left out. Raises ParseError for what is no such message."""
    found: dict[Grant, None] = {}
    for number, pod in _fields(memoryview(answer)):
        if number == 1:
            found.update(dict.fromkeys(_pod(pod)))
        if len(found) > MOST:
            break
    return list(found)[:MOST]


def _pod(message: memoryview) -> Iterator[Grant]:
    texts = {1: "", 2: ""}
    containers = []
    for number, value in _fields(message):
        if number in texts:
            texts[number] = _text(value)
        elif number == 3:
            containers.append(value)
    for container in containers:
        name = ""
        devices: list[Device | None] = []
        for number, value in _fields(container):
            if number == 1:
                name = _text(value)
            elif number == 2:
                devices += _devices(value)
            elif number == 5:
                devices += _dynamic(value)
        yield from (Grant(texts[2], texts[1], name, device) for device in devices if device is not None)


def _devices(message: memoryview) -> list[Device | None]:
    resource, ids = "", []
    for number, value in _fields(message):
        if number == 1:
            resource = _text(value)
        elif number == 2:
            ids.append(_text(value))
    return [parse_device(text, resource) for text in ids]


def _dynamic(message: memoryview) -> list[Device | None]:
    devices: list[Device | None] = []
    for number, claim in _fields(message):
        if number != 4:
            continue
        driver, names, cdi = "", [], []
        for inner, value in _fields(claim):
            if inner == 1:
                cdi += [_text(name) for at, name in _fields(value) if at == 1]
            elif inner == 2:
                driver = _text(value)
            elif inner == 4:
                names.append(_text(value))
        told = [device for name in names if (device := parse_dynamic(driver, name)) is not None]
        # Older kubelets tell the CDI names only.
        devices += told or [parse_dynamic(driver, name) for name in cdi]
    return devices


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields that have a length; the others are skipped."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(message, at)
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise ParseError(f"pod resources: a field of type {kind}")
        if size > len(message) - at:
            raise ParseError("pod resources: a field is longer than its message")
        if kind == 2:
            yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ParseError("pod resources: a number without an end")


def _text(value: memoryview) -> str:
    return bytes(value[:1024]).decode("utf-8", "backslashreplace")
