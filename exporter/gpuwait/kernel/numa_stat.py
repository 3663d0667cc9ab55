"""Memory of a cgroup by NUMA node: `memory.numa_stat` of both versions.

https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html#numa-stat

    anon N0=1048576 N1=0                 (v2, bytes)
    file N0=25165824 N1=4096
    total=6400 N0=6144 N1=256            (v1, pages; the group alone)
    hierarchical_total=9000 N0=8000 N1=1000
"""

from __future__ import annotations

from gpuwait.kernel.errors import ParseError
from gpuwait.kernel.numbers import counter

#: Rows of v2 that add up to the memory of user space; the others are parts of them or the kernel's.
_ROWS = ("anon", "file")
_V1 = ("hierarchical_total", "total")


def parse_numa_stat(text: str, page_size: int) -> dict[int, int]:
    """Bytes by node, empty where no row is known. Raises ParseError.

    Sources: `memory.numa_stat`; page_size is the unit of v1.
    """
    rows: dict[str, dict[int, int]] = {}
    for line in text.split("\n"):
        name, *words = line.split() or [""]
        nodes = dict(pair for word in words if (pair := _node(word)) is not None)
        if nodes:
            rows.setdefault(name.partition("=")[0], nodes)
    if not rows and text.strip():
        raise ParseError("memory.numa_stat: no line has a node")
    for name in _V1:
        if name in rows:
            return {node: pages * page_size for node, pages in rows[name].items()}
    found: dict[int, int] = {}
    for name in _ROWS:
        for node, size in rows.get(name, {}).items():
            found[node] = found.get(node, 0) + size
    return found


def _node(word: str) -> tuple[int, int] | None:
    name, _, number = word.partition("=")
    value = counter(number)
    if name[:1] != "N" or not 1 < len(name) < 6 or not name[1:].isdecimal() or value is None:
        return None
    return int(name[1:]), value
