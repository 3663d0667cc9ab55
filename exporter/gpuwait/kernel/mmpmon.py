"""Parser of what GPFS's `mmpmon -p` answers to `fs_io_s`.

One line a mounted file system, keywords between underscores before each value.

    _fs_io_s_ _n_ 10.0.0.1 _nn_ node1 _rc_ 0 _cl_ a.example _fs_ gpfs0 _d_ 2 _br_ 65 _bw_ 7 _oc_ 1
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwait.kernel.errors import ParseError

#: Keyword -> what it counts.
COUNTERS = {
    "_br_": "read_bytes",
    "_bw_": "written_bytes",
    "_oc_": "opens",
    "_cc_": "closes",
    "_rdc_": "reads",
    "_wc_": "writes",
    "_dir_": "readdirs",
    "_iu_": "inode_updates",
}


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Counters of one file system since it was mounted, by the names in COUNTERS."""

    cluster: str
    name: str
    counters: dict[str, int]


def parse_fs_io(text: str) -> list[FileSystem]:
    """File systems in the order of the answer; raises ParseError where it holds no `_fs_io_s_` line."""
    found, seen = [], False
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] != "_fs_io_s_":
            continue
        seen = True
        pairs = dict(zip(words[1::2], words[2::2], strict=False))
        if pairs.get("_rc_", "0") != "0" or "_fs_" not in pairs:
            continue
        counters = {name: int(pairs[key]) for key, name in COUNTERS.items() if _counter(pairs.get(key, ""))}
        found.append(FileSystem(pairs.get("_cl_", ""), pairs["_fs_"], counters))
    if not seen and text.strip():
        raise ParseError(f"mmpmon: no _fs_io_s_ line in {text.strip()[:80]!r}")
    return found


def _counter(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 21 and int(word) < 2**64
