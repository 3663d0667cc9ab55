"""Messages of delay accounting: built by hand from the kernel's structures."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel import taskstats
from gpuwait.kernel.errors import ParseError

#: Offset of the nanoseconds of each class in struct taskstats.
OFFSETS = {
    "cpu": 24,
    "blkio": 40,
    "swapin": 56,
    "freepages": 320,
    "thrashing": 336,
    "compact": 360,
    "wpcopy": 408,
    "irq": 424,
}


def structure(version, size, **nanoseconds):
    data = bytearray(size)
    struct.pack_into("=H", data, 0, version)
    for name, value in nanoseconds.items():
        struct.pack_into("=Q", data, OFFSETS[name], value)
    return bytes(data)


def reply(payload, sequence=7, pid=42, padding=b""):
    stats = struct.pack("=HH", 4 + len(payload), 3) + payload
    inner = struct.pack("=HHI", 8, 2, pid) + padding + stats
    body = struct.pack("=BBH", 2, 1, 0) + struct.pack("=HH", 4 + len(inner), 5) + inner
    return struct.pack("=IHHII", 16 + len(body), 28, 0, sequence, 0) + body


def error(code, sequence=7):
    return struct.pack("=IHHIIi", 36, 2, 0, sequence, 0, code) + bytes(16)


def test_requests_are_28_bytes():
    """One header, one generic header, one attribute with the id: 2 for a group, 1 for a thread."""
    assert taskstats.request(28, 4242, 9) == struct.pack("=IHHIIBBHHHI", 28, 28, 1, 9, 0, 1, 1, 0, 8, 2, 4242)
    assert taskstats.request(28, 4242, 9, thread=True)[22] == 1


def test_the_family_is_asked_by_name():
    """CTRL_CMD_GETFAMILY with the name padded to 4 bytes."""
    message = taskstats.family_request(3)
    assert len(message) == 36
    assert message[:4] == struct.pack("=I", 36)
    assert message[24:34] == b"TASKSTATS\0"


def test_the_family_is_read():
    """Attribute 1 of the controller's answer, whatever stands before it."""
    attributes = struct.pack("=HH", 14, 2) + b"TASKSTATS\0\0\0" + struct.pack("=HHH", 6, 1, 28) + b"\0\0"
    message = struct.pack("=IHHIIBBH", 20 + len(attributes), 16, 0, 1, 0, 1, 2, 0) + attributes
    assert taskstats.parse_family(message) == (28, 0)
    assert taskstats.parse_family(error(-2)) == (0, 2)
    with pytest.raises(ParseError):
        taskstats.parse_family(message[:20])


@pytest.mark.parametrize(
    ("version", "size", "classes"),
    [(8, 328, 4), (9, 344, 5), (11, 368, 6), (13, 416, 7), (14, 432, 8), (16, 560, 8), (17, 700, 8)],
)
def test_classes_by_length(version, size, classes):
    """Each version has the classes that its length holds, in one order; later ones are a prefix."""
    values = {name: 1000 + i for i, name in enumerate(list(OFFSETS)[:classes])}
    found = taskstats.parse_reply(reply(structure(version, size, **values)))
    assert found.sequence == 7
    assert found.error == 0
    assert found.version == version
    assert found.nanoseconds == tuple(range(1000, 1000 + classes))


@pytest.mark.parametrize("version", [15, 7, 0])
def test_other_layouts_are_refused(version):
    """Version 15 moved its fields, and those before 8 are not known."""
    with pytest.raises(taskstats.UnsupportedVersion, match=f"version {version} "):
        taskstats.parse_reply(reply(structure(version, 432)))


def test_padding_before_the_structure():
    """Where the structure is aligned by an empty attribute, it is found behind that."""
    found = taskstats.parse_reply(reply(structure(13, 416, compact=5), padding=struct.pack("=HH", 4, 6)))
    assert found.nanoseconds[5] == 5


def test_an_error_is_an_answer():
    """ESRCH comes with the sequence of its request."""
    assert taskstats.parse_reply(error(-3, 11)) == taskstats.Reply(11, 3)


@pytest.mark.parametrize(
    "message", [b"", b"\0" * 10, reply(b"\10\0"), error(0), reply(structure(8, 328))[:300]]
)
def test_odd_messages(message):
    """What is too short is refused."""
    with pytest.raises(ParseError):
        taskstats.parse_reply(message)


@given(st.binary(max_size=700), st.integers(0, 600), st.binary(max_size=8))
def test_arbitrary_bytes(noise, cut, change):
    """Nothing but ParseError, and nothing negative."""
    valid = reply(structure(16, 560, cpu=2**64 - 1))
    for message in (noise, valid[:cut], valid[:cut] + change + valid[cut + len(change) :]):
        for parse in (taskstats.parse_reply, taskstats.parse_family):
            try:
                found = parse(message)
            except ParseError:
                continue
            if isinstance(found, taskstats.Reply):
                assert all(n >= 0 for n in found.nanoseconds)
                assert found.error >= 0
