"""The kubelet's answer, as bytes written down from the wire format."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.gpu_claims import Device
from gpuwait.kernel.pod_resources import Grant, parse_pod_resources

U = "5a1b2c3d-0000-4111-8222-333344445555"
#: pod_resources{name "p" namespace "n" containers{name "c" devices{resource_name "nvidia.com/gpu" ...}}}
ONE = (
    b"\x0a\x4b"
    b"\x0a\x01p\x12\x01n"
    b"\x1a\x43"
    b"\x0a\x01c"
    b"\x12\x3e\x0a\x0envidia.com/gpu\x12\x2cGPU-" + U.encode() + b"::12"
)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _size(content) + content


def _size(message: bytes) -> bytes:
    n, out = len(message), bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def test_one_container() -> None:
    """Pod, namespace, container and device."""
    assert parse_pod_resources(ONE) == [Grant("n", "p", "c", Device("uuid", f"GPU-{U}", shared=True))]


def test_nothing() -> None:
    """A node without pods answers with no bytes at all."""
    assert parse_pod_resources(b"") == []


def test_unknown_fields_are_skipped() -> None:
    """Numbers of every type that a later kubelet may add cost nothing."""
    more = b"\x20\xff\x01\x29\x00\x00\x00\x00\x00\x00\x00\x00\x35\x00\x00\x00\x00\x3a\x02hi"
    assert parse_pod_resources(more) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"\x0a",
        b"\x0a\x05ab",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0b",
        b"\x80" * 20,
        b"\x09\x00",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_garbage(answer: bytes) -> None:
    """What is no message is an error, not an empty node."""
    with pytest.raises(ParseError):
        parse_pod_resources(answer)


@given(st.binary(max_size=200))
def test_any_bytes(answer: bytes) -> None:
    """Whatever comes, it is read or refused."""
    with contextlib.suppress(ParseError):
        parse_pod_resources(answer)


def _pod(*devices: bytes) -> bytes:
    inner = _field(2, b"".join(_field(2, device) for device in devices))
    return _field(1, b"\x0a\x01p\x12\x01n" + _field(3, inner))


def _dynamic(claim: bytes, *resources: bytes) -> bytes:
    inner = _field(5, _field(2, claim) + _field(3, b"ml") + b"".join(_field(4, r) for r in resources))
    return _field(1, b"\x0a\x01p\x12\x01n" + _field(3, inner))


def test_dynamic_resource() -> None:
    """The name and namespace of the claim are told beside the device."""
    device = _field(2, b"gpu.nvidia.com") + _field(3, b"node1") + _field(4, b"gpu-3")
    assert parse_pod_resources(_dynamic(b"c", device)) == [
        Grant("n", "p", "", Device("minor", "3"), claim="ml/c")
    ]


def test_share_of_a_dynamic_resource() -> None:
    """A device with the id of a share may be given to others too."""
    device = _field(2, b"gpu.nvidia.com") + _field(4, b"gpu-3") + _field(5, b"5f3c")
    (grant,) = parse_pod_resources(_dynamic(b"c", device))
    assert grant.device == Device("minor", "3", shared=True)


def test_cdi_names_where_no_device_is_named() -> None:
    """Older kubelets tell the CDI names only."""
    device = _field(1, _field(1, b"k8s.gpu.nvidia.com/device=gpu-1")) + _field(2, b"gpu.nvidia.com")
    (grant,) = parse_pod_resources(_dynamic(b"c", device))
    assert grant.device == Device("minor", "1")


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (_pod(*(b"nvidia%d" % n for n in range(4097))), "more than 4096 GPUs"),
        (_pod(*(b"kvm%d" % n for n in range(70_000))), "more than 65536 devices"),
        (_pod(*(b"" for _ in range(70_000))), "more than 65536 devices"),
        (b"\x0a\x00" * 70_000, "more than 65536 devices"),
        (_field(1, b"\x1a\x00" * 70_000), "more than 65536 devices"),
    ],
)
def test_bounds(answer: bytes, what: str) -> None:
    """More than a node can have is refused, not cut: what was cut would look free."""
    with pytest.raises(ParseError, match=what):
        parse_pod_resources(answer)


def test_many_shares_of_one_gpu() -> None:
    """What names the same part of the same GPU for the same container counts once."""
    assert len(parse_pod_resources(_pod(*(f"GPU-{U}::{n}".encode() for n in range(5000))))) == 1
