"""Which Slurm job was given which GPU, from the files that a site's prolog writes.

Two forms, of which a site that feeds another exporter has one already; `kernel.gpu_claims` reads both:

    <directory>/<gpu>        job ids, one a line (dcgm-exporter's job mapping); also `<gpu>.<instance>`
    /run/exporter/<gpu>      {"SLURM_JOB_ID": "742", ...} (AMD's exporter)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuwait.host import Host, fingerprint, first_names, read_file
from gpuwait.kernel.gpu_claims import Device, parse_job_file

#: Where AMD's prolog writes; read where it is there.
USUAL = "run/exporter"
#: Files of one directory, and bytes of one.
MOST = 256
LONGEST = 64 * 1024


@dataclass(slots=True)
class _File:
    print: tuple[int, int, int]
    settled: bool = False
    given: tuple[Device, tuple[str, ...]] | None = None


class JobFiles:
    """`look` reads what changed, on the thread of a `Lookout`.

    given:   device and jobs; None where there is no directory. Replaced as a whole.
    reasons: by directory, why it could not be read.
    """

    def __init__(self, host: Host, directories: Iterable[str] = ()) -> None:
        self._asked_for = tuple(directories)
        self._usual = f"{host.rootfs.rstrip('/')}/{USUAL}"
        self._files: dict[str, _File] = {}
        self.given: tuple[tuple[Device, tuple[str, ...]], ...] | None = None
        self.reasons: dict[str, str] = {}

    def look(self) -> bool:
        """Read the files that changed. False: nothing is left to do."""
        files: dict[str, _File] = {}
        present = False
        reasons: dict[str, str] = {}
        for directory in dict.fromkeys((*self._asked_for, self._usual)):
            try:
                there = fingerprint(directory) is not None
                if there:
                    present = True
                    self._directory(directory, files)
                elif directory in self._asked_for:
                    reasons[directory] = f"{directory}: no such directory"
            except OSError as error:
                reasons[directory] = f"{directory}: {error.strerror or error}"
        self._files = files
        self.reasons = reasons
        self.given = tuple(f.given for f in files.values() if f.given is not None) if present else None
        return False

    def _directory(self, directory: str, files: dict[str, _File]) -> None:
        for name in sorted(first_names(directory, MOST)):
            path = f"{directory}/{name}"
            try:
                seen = fingerprint(path)
                if seen is None:  # removed by an epilog since
                    continue
                file = self._files.get(path)
                same = file is not None and file.print == seen
                if file is None or not (same and file.settled):
                    # Written twice within a tick of the clock: hence once more after each change.
                    text = read_file(path, LONGEST)
                    file = _File(seen, same, parse_job_file(name, text) if text is not None else None)
                files[path] = file
            except OSError:  # a directory, a pipe, closed to us: no file of this kind
                continue
