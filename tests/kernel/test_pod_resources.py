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


def test_bound() -> None:
    """A node with more devices than can be gives so many."""
    devices = b"".join(b"\x12" + bytes([len(d)]) + d for d in (b"nvidia%d" % n for n in range(9000)))
    inner = b"\x12" + _size(devices) + devices
    pod = b"\x0a\x01p\x12\x01n\x1a" + _size(inner) + inner
    assert len(parse_pod_resources(b"\x0a" + _size(pod) + pod)) == 4096


def _size(message: bytes) -> bytes:
    n, out = len(message), bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])
