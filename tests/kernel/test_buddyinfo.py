"""/proc/buddyinfo."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwait.kernel.buddyinfo import FreeBlocks, parse_buddyinfo
from gpuwait.kernel.errors import ParseError

DMA = "Node 0, zone      DMA      1      0      0      1      2      1      1      0      1      1      3 \n"
SPLIT = (
    "Node 1, zone   Normal    512      0      0      0      0      0      0      0      0      1      0 \n"
)


def test_zone_names_are_padded():
    """Node, zone and one count for each order."""
    assert parse_buddyinfo(DMA) == [FreeBlocks("0", "DMA", (1, 0, 0, 1, 2, 1, 1, 0, 1, 1, 3))]


def test_unusable_ratio():
    """Of 512 single pages and one block of 512 pages, half is too small for a huge page."""
    assert parse_buddyinfo(SPLIT)[0].unusable_ratio(9) == 0.5


def test_nothing_unusable():
    """Free memory in large blocks only is all usable."""
    assert FreeBlocks("0", "Normal", (0,) * 10 + (4,)).unusable_ratio(9) == 0.0


@pytest.mark.parametrize("blocks", [(0,) * 11, (5, 5, 5), (None, *[1] * 10)])
def test_no_ratio(blocks):
    """Nothing free, no such order, or a count missing: no ratio."""
    assert FreeBlocks("0", "Normal", blocks).unusable_ratio(9) is None


def test_more_orders():
    """Kernels with large pages have more columns."""
    line = "Node 0, zone   Normal " + "1 " * 14
    assert len(parse_buddyinfo(line)[0].blocks) == 14


def test_impossible_number_costs_its_order():
    """A number of 2^63 and more is no count; the others of the zone stay."""
    assert parse_buddyinfo("Node 0, zone DMA 7 18446744073709551615 9\n")[0].blocks == (7, None, 9)


@pytest.mark.parametrize(
    "bad", ["Node 0, zone DMA", "Node x, zone DMA 1", "Mode 0, zone DMA 1", "", "Node 0, zone DMA x"]
)
def test_bad_line_costs_only_itself(bad):
    """A line that is no zone is skipped."""
    assert [zone.node for zone in parse_buddyinfo(f"{bad}\n{SPLIT}")] == ["1"]


def test_repeated_zone():
    """A zone appears once."""
    assert len(parse_buddyinfo(DMA + DMA)) == 1


def test_text_of_another_kind():
    """Where no line is a zone, the error names the file."""
    with pytest.raises(ParseError, match="buddyinfo"):
        parse_buddyinfo("nothing\n")


@given(
    st.text()
    | st.lists(st.sampled_from(["Node 0, zone DMA", " 5", " -1", " x", "\n", " 99999999999999999999"])).map(
        "".join
    )
)
def test_any_text(text):
    """Nothing but ParseError leaves; counts are not negative and a ratio lies from 0 to 1."""
    try:
        zones = parse_buddyinfo(text)
    except ParseError:
        return
    for zone in zones:
        assert all(count is None or count >= 0 for count in zone.blocks)
        ratio = zone.unusable_ratio(9)
        assert ratio is None or 0 <= ratio <= 1
    assert len({(zone.node, zone.zone) for zone in zones}) == len(zones)
