"""What outlives a reader."""

from __future__ import annotations

from gpuwait.gpu.protocol import GpuReading, Message
from gpuwait.gpu.totals import Totals


def gpu(index: int, uuid: str = "", *, up: bool = True, busy: float | None = None) -> GpuReading:
    return GpuReading(index=index, uuid=uuid, up=up, busy_seconds=busy, observed_seconds=busy)


def test_busy_seconds_add_up_over_messages() -> None:
    """The lines bring what is new; the snapshot has the sum."""
    totals = Totals()
    totals.add(Message(devices=(gpu(0, "A", busy=0.5),)))
    snapshot = totals.add(Message(devices=(gpu(0, "A", busy=0.25),)))
    assert snapshot.devices[0].busy_seconds == 0.75
    assert snapshot.devices[0].observed_seconds == 0.75


def test_busy_seconds_stay_absent() -> None:
    """A GPU without samples gets no sum."""
    assert Totals().add(Message(devices=(gpu(0, "A"),))).devices[0].busy_seconds is None


def test_xids_count_by_gpu_and_code() -> None:
    """Each event counts once; an older snapshot does not change."""
    totals = Totals()
    before = totals.add(Message(devices=(gpu(0, "A"),), xids=(("A", 31), ("A", 31), ("A", 79))))
    after = totals.add(Message(devices=(gpu(0, "A"),), xids=(("A", 79),)))
    assert before.xids == {("A", 31): 2, ("A", 79): 1}
    assert after.xids == {("A", 31): 2, ("A", 79): 2}


def test_errors_carry_the_uuid() -> None:
    """A failed call belongs to the GPU that had the index."""
    snapshot = Totals().add(Message(devices=(gpu(1, "B"),), errors=((1, "timeout", 3),)))
    assert snapshot.errors == {(1, "B", "timeout"): 3}


def test_a_lost_gpu_keeps_its_name() -> None:
    """A GPU that cannot say who it is any more is the one that was at this index."""
    totals = Totals()
    totals.add(Message(devices=(gpu(0, "A"), gpu(1, "B"))))
    devices = totals.add(Message(devices=(gpu(0, "A"), gpu(1, up=False)))).devices
    assert [(d.index, d.uuid, d.up) for d in devices] == [(0, "A", True), (1, "B", False)]


def test_a_lost_gpu_takes_no_name_of_one_that_is_there() -> None:
    """Where the indexes moved, the name of a GPU that answers is not given away."""
    totals = Totals()
    totals.add(Message(devices=(gpu(0, "A"), gpu(1, "B"))))
    devices = totals.add(Message(devices=(gpu(0, "B"), gpu(1, up=False)))).devices
    assert [(d.index, d.uuid, d.up) for d in devices] == [(0, "B", True), (1, "", False), (0, "A", False)]


def test_a_gpu_that_is_listed_no_more_is_down() -> None:
    """A GPU that vanished from the driver's list shows as lost, not as nothing."""
    totals = Totals()
    totals.add(Message(count=2, devices=(gpu(0, "A"), gpu(1, "B"))))
    snapshot = totals.add(Message(count=1, devices=(gpu(0, "A"),)))
    assert snapshot.count == 1
    assert [(d.index, d.uuid, d.up) for d in snapshot.devices] == [(0, "A", True), (1, "B", False)]


def test_forget() -> None:
    """After the devices were released on purpose a GPU may be gone."""
    totals = Totals()
    totals.add(Message(devices=(gpu(0, "A"), gpu(1, "B"))))
    totals.forget()
    assert [d.uuid for d in totals.add(Message(devices=(gpu(0, "A"),))).devices] == ["A"]
