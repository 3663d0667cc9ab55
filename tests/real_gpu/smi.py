"""What nvidia-smi says: the second opinion."""

import contextlib
import shutil
import subprocess  # noqa: TID251 - nvidia-smi is what is compared with
import threading
from collections.abc import Iterator

#: Fields of --query-gpu, in the order asked. "memory.used" and the like are MiB, power W, clocks MHz.
FIELDS = (
    "uuid", "utilization.gpu", "memory.used", "memory.total", "power.draw", "temperature.gpu",
    "pcie.link.gen.current", "pcie.link.width.current", "pcie.link.gen.max", "pcie.link.width.max",
    "clocks.sm", "enforced.power.limit",
)  # fmt: skip
FORMAT = "--format=csv,noheader,nounits"
EVERY_MS = 200

Row = dict[str, float | None]


def found() -> str | None:
    """The path of nvidia-smi."""
    return shutil.which("nvidia-smi")


def number(text: str) -> float | None:
    """The number; None for [N/A], [Not Supported] and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def parse(line: str) -> tuple[str, Row] | None:
    """UUID and values of one line; None for a line that is something else."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(FIELDS) or not cells[0].startswith("GPU-"):
        return None
    return cells[0], {name: number(cell) for name, cell in zip(FIELDS[1:], cells[1:], strict=True)}


class Watch:
    """The rows of every GPU that a running nvidia-smi has printed so far."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}

    def follow(self, lines: Iterator[str]) -> None:
        """Take every line until the end."""
        for line in lines:
            if parsed := parse(line):
                self.rows.setdefault(parsed[0], []).append(parsed[1])

    def mean(self, uuid: str, field: str) -> float | None:
        """Mean of the numbers; None where there is none."""
        values = [row[field] for row in self.rows.get(uuid, ()) if row[field] is not None]
        return sum(values) / len(values) if values else None

    def usual(self, uuid: str, field: str) -> float | None:
        """The most frequent number."""
        values = [row[field] for row in self.rows.get(uuid, ()) if row[field] is not None]
        return max(set(values), key=values.count) if values else None


@contextlib.contextmanager
def watching() -> Iterator[Watch]:
    """A nvidia-smi that prints five times a second while the block runs."""
    # into a pipe it may keep its lines back, and it is ended before it would let go of them
    unbuffered = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []
    command = [*unbuffered, "nvidia-smi", f"--query-gpu={','.join(FIELDS)}", FORMAT, "-lms", str(EVERY_MS)]
    watch = Watch()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        thread = threading.Thread(target=watch.follow, args=(process.stdout,))
        thread.start()
        try:
            yield watch
        finally:
            process.terminate()
            thread.join()


def processes() -> dict[str, list[tuple[int, float | None]]]:
    """Compute processes by UUID: pid and MiB."""
    command = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", FORMAT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    by_gpu: dict[str, list[tuple[int, float | None]]] = {}
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and cells[1].isdigit():
            by_gpu.setdefault(cells[0], []).append((int(cells[1]), number(cells[2])))
    return by_gpu
