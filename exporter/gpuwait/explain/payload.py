"""A report as JSON: what `/api/v1/verdict` answers and `gpuwait explain --format json` prints. Pure.

The keys are stable; new ones may come, so ignore those you do not know:

    version          1
    gpuwait          version of the program
    window_seconds   seconds that the figures are taken over
    simulated        name of a scenario, "" on a real node
    summary          one line
    explanations     list, those that wait first:
        gpus, uuids              of the GPUs that fare alike
        workloads                list of kind, namespace, workload, container
        verdict                  waiting | idle | free | unknown | healthy
        cause                    as in gpuwait_gpu_waiting_seconds_total, "" without
        detail                   the mount, device, port or thread it concerns
        symptom, meaning         sentences
        observed_seconds         mean of the GPUs, as the next three
        seconds                  by state: busy, gap, waiting, idle, free, unknown
        waiting_seconds          by cause
        utilization, share       0 to 1 or null; share: of the workload's time lost to the cause
        evidence                 list of signal, text, value, unit, shown, threshold, limit, fired, source
        fix_now, fix_for_good    lists of text, command
        verify                   number, command, query, ledger_query; or null
        considered               list of cause, share, text
        ruled_out                causes whose signals were all there, and below their thresholds
        threads                  total, where (number by state), busiest (name, user, system, tid), note;
                                 or null
        runbook                  page and section
    unavailable      list of signals, reason, enable
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from gpuwait import __version__
from gpuwait.explain.model import Report

T = TypeVar("T")


def payload(report: Report) -> dict[str, Any]:
    """The report as plain values."""
    return {"version": 1, "gpuwait": __version__, **dataclasses.asdict(report)}


def as_json(report: Report, *, indent: int | None = None) -> str:
    """The report as JSON, with what is not ASCII escaped."""
    return json.dumps(payload(report), indent=indent, allow_nan=False) + "\n"


def from_json(text: bytes | str) -> Report:
    """The report that a daemon sent, perhaps of another version. Raises ValueError where it is none."""
    try:
        found = json.loads(text)
        return _make(Report, found)
    except (TypeError, KeyError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"this is no verdict: {error}") from error


def _make(kind: type[T], found: Any) -> T:
    """An instance of a dataclass from a JSON object; unknown keys are ignored, types are held to."""
    if not isinstance(found, dict):
        raise TypeError(f"{kind.__name__} is not an object")
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return kind(**{f.name: _value(hints[f.name], found[f.name]) for f in fields if f.name in found})


def _value(hint: Any, value: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        inner = [a for a in typing.get_args(hint) if a is not type(None)]
        return None if value is None else _value(inner[0], value)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError("a list is missing")
        return tuple(_value(typing.get_args(hint)[0], one) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise TypeError("an object is missing")
        return {str(k): _value(typing.get_args(hint)[1], v) for k, v in value.items()}
    if dataclasses.is_dataclass(hint):
        return _make(typing.cast(type, hint), value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise TypeError(f"{value!r:.40} is no {hint.__name__}")
    return value
