"""Health of the GPUs of a node: load, clocks, link, errors."""

from __future__ import annotations

from dashboards.build.page import Row
from dashboards.build.panels import graph
from dashboards.build.query import GPU, Query, ratio

_NAME = "GPU {{gpu}}"
_OFF = "the driver does not tell it for this GPU, or the reader of GPUs does not run"


def _now(metric: str, by: str = "gpu", more: str = "") -> str:
    return f"max by (cluster, {by}) ({metric}{{{GPU}{more}}})"


_SM = ', clock="sm"'
_LINK = " * ".join(_now(f"gpuwait_gpu_pcie_link_{part}") for part in ("generation", "width"))
_LINK_MAX = " * ".join(_now(f"gpuwait_gpu_pcie_link_max_{part}") for part in ("generation", "width"))

_PANELS = (
    graph(
        "Utilisation",
        "Share of time with any kernel running, as the driver says. 100 % does not mean that work gets "
        "done: collectives spin while they wait for a slow peer.",
        "percentunit",
        Query("max by (cluster, gpu) (gpu:gpuwait_utilization:ratio_avg5m{" + GPU + "})", _NAME),
        absent=f"{_OFF}; GPUs cut into MIG slices have none",
        top=1,
    ),
    graph(
        "SM clock against its maximum",
        "Below 100 % under load the GPU is slowed: see the reasons beside.",
        "percentunit",
        Query(
            ratio(_now("gpuwait_gpu_clock_hertz", more=_SM), _now("gpuwait_gpu_clock_max_hertz", more=_SM)),
            _NAME,
        ),
        absent=_OFF,
        top=1,
    ),
    graph(
        "Clocks held down",
        "1 while the reason holds. `software_power_cap` and `idle` are normal; hardware slowdown, heat and "
        "power brake are not.",
        "bool",
        Query(_now("gpuwait_gpu_clocks_limited", "gpu, reason") + " > 0", "GPU {{gpu}} {{reason}}"),
        absent=f"nothing holds the clocks down, or {_OFF}",
    ),
    graph(
        "Temperature",
        "Of the chip.",
        "celsius",
        Query(_now("gpuwait_gpu_temperature_celsius"), _NAME),
        absent=_OFF,
    ),
    graph(
        "Power",
        "Drawn; a GPU at its limit runs at lower clocks.",
        "watt",
        Query(_now("gpuwait_gpu_power_watts"), _NAME),
        absent=_OFF,
    ),
    graph(
        "Memory used",
        "Share of the GPU's memory.",
        "percentunit",
        Query(ratio(_now("gpuwait_gpu_memory_used_bytes"), _now("gpuwait_gpu_memory_total_bytes")), _NAME),
        absent=_OFF,
        top=1,
    ),
    graph(
        "PCIe link against its maximum",
        "Generation times lanes, of what GPU and slot allow. It may fall while the GPU is idle; under "
        "load below 100 % it has been trained down.",
        "percentunit",
        Query(f"({_LINK}) / ({_LINK_MAX})", _NAME),
        absent=_OFF,
        top=1,
    ),
    graph(
        "Errors",
        "XIDs, uncorrected memory errors and PCIe replays of the last hour.",
        "short",
        Query(
            f"max by (cluster, gpu, xid) (increase(gpuwait_gpu_xid_errors_total{{{GPU}}}[1h])) > 0",
            "GPU {{gpu}} XID {{xid}}",
        ),
        Query(
            "max by (cluster, gpu) "
            f'(increase(gpuwait_gpu_ecc_errors_total{{{GPU}, kind="uncorrected"}}[1h])) > 0',
            "GPU {{gpu}} uncorrected ECC",
        ),
        Query(
            f"max by (cluster, gpu) (increase(gpuwait_gpu_pcie_replays_total{{{GPU}}}[1h])) > 0",
            "GPU {{gpu}} PCIe replays",
        ),
        absent="no errors",
    ),
    graph(
        "GPUs that answer",
        "1 while it does, 0 for one that fell off the bus or has to be reset.",
        "bool",
        Query(_now("gpuwait_gpu_up"), _NAME),
        absent=_OFF,
    ),
)

ROWS = (Row("GPU health", 7, [(panel, 8) for panel in _PANELS]),)
