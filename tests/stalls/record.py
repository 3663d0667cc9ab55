"""Records what the sampler of `gpuwait serve` sees, and makes a recording for `gpuwait.scenarios` of it.

    record.py serve FILE OPTION..     the daemon, which also writes each snapshot to FILE as a line of JSON
    record.py thin FILE FIRST LAST    the recording of the snapshots between two moments of its clock

A recording keeps what causes read, of one GPU and its workload; `scenarios/recorded.py` has the format.
Both run anywhere: the first with the fake NVML in LD_LIBRARY_PATH, as `verdicts.py` starts it.
"""

import dataclasses
import itertools
import json
import sys
from pathlib import Path

#: Counters of vmstat that decide something; the others would fill the recording.
VMSTAT = ("compact_stall", "compact_fail", "allocstall", "pswpin", "numa_hint_faults")
#: Parts of a second, or of what else is no whole number, that are kept.
PARTS = 10_000
#: The time in the run queue tells whether a thread ran at all.
EXACT = {"queue_seconds": 1_000_000_000}


def plain(value):
    """Dataclasses and mappings as dictionaries with text for keys."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {"|".join(k) if isinstance(k, tuple) else str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


def serve(path, options):
    """Run the daemon with the recorder at the end of each tick."""
    from gpuwait import cli, daemon

    made = daemon.build

    def build(config):
        parts = made(config)
        told = parts.sampler._after

        def after(verdict, snapshot):
            told(verdict, snapshot)
            out.write(json.dumps(plain(snapshot)) + "\n")
            out.flush()

        parts.sampler._after = after
        return parts

    with Path(path).open("w") as out:
        daemon.build = build
        return cli.main(["serve", *options])


def chosen(snapshot):
    """What a recording has of one snapshot."""
    host, (gpu,), (load,) = snapshot["host"], snapshot["gpus"], snapshot["workloads"].values()
    vmstat = {name: value for name, value in host["vmstat"].items() if name.startswith(VMSTAT)}
    used = {kind for delays in load["delays"].values() for kind, seconds in delays.items() if seconds}
    delays = {p: {k: v for k, v in d.items() if k in used} for p, d in load["delays"].items()}
    return {
        "at": snapshot["at"],
        "host": {**host, "vmstat": vmstat},
        "gpu": {name: value for name, value in gpu.items() if name != "workloads"},
        "workload": {**load, "delays": delays},
    }


def rolled(values, key=""):
    """Values of all ticks as one: see `scenarios/recorded.py`."""
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        # Looks in which nothing was blocked have no entry; whatever else came or went is left out.
        missing = 0 if key == "blocked" else None
        columns = {name: [value.get(name, missing) for value in values] for name in names}
        return {
            name: rolled(column, name)
            for name, column in columns.items()
            if key == "blocked" or all(name in value for value in values)
        }
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    if numbers and not all(isinstance(value, int) for value in values):
        parts = EXACT.get(key, PARTS)
        whole = [round(value * parts) for value in values]
        return whole[0] / parts if len(set(whole)) == 1 else [parts, *grown(whole)]
    if all(value == values[0] for value in values):
        return values[0]
    if numbers:
        return [1, *grown(values)]
    return {"each": [[value, len(list(same))] for value, same in itertools.groupby(values)]}


def grown(values):
    """The first value and by how much each grew."""
    return [values[0], *(after - before for before, after in itertools.pairwise(values))]


def lines(tree, indent=""):
    """JSON with one line for each series."""
    if not isinstance(tree, dict) or "each" in tree or not tree:
        return json.dumps(tree, separators=(",", ":"))
    inner = ",\n".join(f'{indent} "{name}": {lines(part, indent + " ")}' for name, part in tree.items())
    return f"{{\n{inner}\n{indent}}}"


def thin(path, first, last):
    """The recording as text."""
    taken = [json.loads(line) for line in Path(path).read_text().splitlines()]
    taken = [snapshot.get("snapshot", snapshot) for snapshot in taken]
    taken = [chosen(snapshot) for snapshot in taken if first <= snapshot["at"] <= last]
    for snapshot in taken[1:]:
        snapshot["at"] -= taken[0]["at"]
    taken[0]["at"] = 0.0
    return lines(rolled(taken)) + "\n"


def main():
    match sys.argv[1:]:
        case ["serve", path, *options]:
            return serve(path, options)
        case ["thin", path, first, last]:
            sys.stdout.write(thin(path, float(first), float(last)))
            return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
