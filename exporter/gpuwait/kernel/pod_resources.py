"""Answer of the kubelet's `v1.PodResourcesLister/List`: which device is given to which container.

Source: kubernetes, staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/api.proto. Of its messages these
fields are read, by number; others are skipped.

    ListPodResourcesResponse  pod_resources 1
    PodResources              name 1, namespace 2, containers 3
    ContainerResources        name 1, devices 2, dynamic_resources 5
    ContainerDevices          resource_name 1, device_ids 2
    DynamicResource           claim_name 2, claim_namespace 3, claim_resources 4
    ClaimResource             cdi_devices 1 (name 1), driver_name 2, device_name 4, share_id 5

The form is that of protobuf (https://protobuf.dev/programming-guides/encoding): key `number << 3 | type`,
then a varint (0), 8 bytes (1), a length and so many bytes (2), or 4 bytes (5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.gpu_claims import Device, parse_device, parse_dynamic

#: A node has 250 pods with 16 GPUs, of which each may be cut into 64 parts.
MOST = 4096
#: Pods, containers and devices of any kind: a bound for the time that it takes to read them.
MOST_PARTS = 65_536


@dataclass(frozen=True, slots=True)
class Grant:
    """A device that a container of a pod was given.

    claim: namespace and name of the ResourceClaim that it is of, empty for that of a device plugin. Pods that
           use one claim share its device.
    """

    namespace: str
    pod: str
    container: str
    device: Device
    claim: str = ""


def parse_pod_resources(answer: bytes) -> list[Grant]:
    """GPUs by container; other devices are left out.

    Raises ParseError for what is no such message, or tells of more than a node can have.
    """
    found: dict[Grant, None] = {}
    for parts, grant in enumerate(_parts(memoryview(answer))):
        if parts >= MOST_PARTS:
            raise ParseError(f"pod resources: more than {MOST_PARTS} devices")
        if grant is not None:
            found[grant] = None
        if len(found) > MOST:
            raise ParseError(f"pod resources: more than {MOST} GPUs")
    return list(found)


def _parts(message: memoryview) -> Iterator[Grant | None]:
    """One for each pod, container and device; None for what is no GPU."""
    for number, pod in _fields(message):
        if number != 1:
            continue
        yield None
        name, namespace = _texts(pod, (1, 2))
        for inner, container in _fields(pod):
            if inner == 3:
                yield None
                yield from _grants(container, namespace, name)


def _grants(message: memoryview, namespace: str, pod: str) -> Iterator[Grant | None]:
    (container,) = _texts(message, (1,))
    for number, value in _fields(message):
        claim = ""
        devices: Iterator[Device | None] = iter(())
        if number == 2:
            devices = _devices(value)
        elif number == 5:
            claim = "{1}/{0}".format(*_texts(value, (2, 3)))
            devices = _dynamic(value)
        for device in devices:
            yield None if device is None else Grant(namespace, pod, container, device, claim)


def _devices(message: memoryview) -> Iterator[Device | None]:
    (resource,) = _texts(message, (1,))
    return (parse_device(_text(value), resource) for number, value in _fields(message) if number == 2)


def _dynamic(message: memoryview) -> Iterator[Device | None]:
    for number, claim in _fields(message):
        if number != 4:
            continue
        driver, name, share = _texts(claim, (2, 4, 5))
        device = parse_dynamic(driver, name) if name else None
        if device is not None:
            yield replace(device, shared=device.shared or bool(share))
            continue
        # Older kubelets tell the CDI names only.
        for inner, value in _fields(claim):
            if inner == 1:
                yield parse_dynamic(driver, *_texts(value, (1,)))


def _texts(message: memoryview, numbers: Collection[int]) -> list[str]:
    """The texts in these fields, empty where a field is absent."""
    found = {number: value for number, value in _fields(message) if number in numbers}
    return [_text(found[number]) if number in found else "" for number in numbers]


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
