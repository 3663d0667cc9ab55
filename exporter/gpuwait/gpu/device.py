"""One NVIDIA GPU: which calls are made, how often, and what the reader's line says about it.

Every call takes a lock in the driver that the GPU's own workload wants too, so
each value is read as seldom as its use allows. All values are those of NVML:
milliwatts, megahertz, per cent; the parent turns them into base units.
"""

from __future__ import annotations

from typing import Any

from gpuwait.gpu.nvml import DeviceLost, Nvml, Unit, address
from gpuwait.gpu.samples import Ring

#: Ticks (seconds) between two readings of a group; several GPUs are spread over the ticks.
MEDIUM, SLOW, RARE = 5, 10, 60

#: Key of the line, the calls to try in this order, further arguments.
Row = tuple[str, tuple[str, ...], tuple[int, ...]]

_EACH_TICK: tuple[Row, ...] = (
    ("power_milliwatts", ("nvmlDeviceGetPowerUsage",), ()),
    ("energy_millijoules", ("nvmlDeviceGetTotalEnergyConsumption",), ()),
    # sensor 0 = the GPU; V1 is what the bindings from CUDA 14 on keep
    ("temperature_celsius", ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV1"), (0,)),
    # the second is its name before driver 535
    (
        "clock_limits",
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        (),
    ),
)
_SLOW: tuple[Row, ...] = (
    ("power_limit_milliwatts", ("nvmlDeviceGetEnforcedPowerLimit",), ()),
    ("pcie_generation", ("nvmlDeviceGetCurrPcieLinkGeneration",), ()),
    ("pcie_width", ("nvmlDeviceGetCurrPcieLinkWidth",), ()),
    ("pcie_replays", ("nvmlDeviceGetPcieReplayCounter",), ()),
    # (0 corrected, 1 uncorrected), 0 = since the driver was loaded
    ("ecc_corrected", ("nvmlDeviceGetTotalEccErrors",), (0, 0)),
    ("ecc_uncorrected", ("nvmlDeviceGetTotalEccErrors",), (1, 0)),
    ("persistence", ("nvmlDeviceGetPersistenceMode",), ()),
)
_RARE: tuple[Row, ...] = (
    ("name", ("nvmlDeviceGetName",), ()),
    ("minor", ("nvmlDeviceGetMinorNumber",), ()),
    ("pcie_max_generation", ("nvmlDeviceGetMaxPcieLinkGeneration",), ()),
    ("pcie_max_width", ("nvmlDeviceGetMaxPcieLinkWidth",), ()),
)
_CLOCKS = (("graphics", 0), ("sm", 1), ("memory", 2), ("video", 3))
_PROCESSES = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    # clients of the multi-process service are in no other list
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
)
_NO_INSTANCE = 0xFFFFFFFF
#: Processes of one GPU that a line carries at most.
MOST_PROCESSES = 1024
#: Ticks for which a share from the ring stands in while the ring brings nothing newer.
FRESH = 2


class Device:
    """One index of NVML, with the GPU that answers to it now.

    line: what the reader's line says about it: `up`, and every value that there is.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.line: dict[str, Any] = {"index": index, "up": None}
        self.unit = Unit(str(index))
        self.address = 0
        self._ring = Ring()
        self._age = 0
        self._slices: list[Unit] = []
        self._next = 0

    @property
    def up(self) -> bool:
        """True where the GPU answers."""
        return self.line["up"] is True

    @property
    def uuid(self) -> str:
        """The GPU's identity, empty while it was never known."""
        return str(self.line.get("uuid", ""))

    def open(self, nvml: Nvml, events: Unit) -> None:
        """Find the GPU of this index, at first or again after it was lost; raises DriverGone.

        `up` stays None where the GPU is another container's: not ours to judge.
        """
        try:
            handle = nvml.call(nvml.system, "nvmlDeviceGetHandleByIndex", self.index)
            if handle is None:
                refused = nvml.refused(nvml.system, "nvmlDeviceGetHandleByIndex", self.index)
                self._down(None if refused and not self.uuid else False)
                return
            self.unit.handle = handle
            uuid = nvml.call(self.unit, "nvmlDeviceGetUUID")
            if uuid is None and not nvml.refused(self.unit, "nvmlDeviceGetUUID"):
                # without its name now, its series would begin anew when it has it
                self._down(False)
                return
        except DeviceLost:
            self._down(False)
            return
        uuid = uuid or ""
        if uuid != self.uuid:
            # another card: what the old one did not offer says nothing about it
            self.unit, self._ring, self._next = Unit(str(self.index)), Ring(), 0
            self.unit.handle = handle
        self.line = {"index": self.index, "up": True, "uuid": uuid}
        self.address = address(handle)
        self._next = 0
        try:
            nvml.watch(self.unit, events)
        except DeviceLost:
            self._down(False)

    def _down(self, up: bool | None) -> None:  # noqa: FBT001 - the value of the label, no switch
        kept = {"uuid": self.uuid} if self.uuid else {}
        self.line = {"index": self.index, "up": up, **kept}

    def read(self, nvml: Nvml) -> None:
        """Bring `line` up to date; raises DriverGone."""
        if not self.up:
            return
        tick, self._next = self._next, self._next + 1
        # the GPUs of a node take turns with what is read seldom
        turn = tick + self.index if tick else 0
        try:
            self._utilization(nvml)
            self._memory(nvml, self.unit, self.line)
            self._rows(nvml, _EACH_TICK)
            if turn % MEDIUM == 0:
                self._clocks(nvml, "clocks_megahertz", "nvmlDeviceGetClockInfo")
                self._mig(nvml)
                self._processes(nvml)
            if turn % SLOW == 0:
                self._rows(nvml, _SLOW)
            if turn % RARE == 0:
                self._rare(nvml)
        except DeviceLost:
            self._down(False)

    def _set(self, key: str, value: Any) -> None:
        if value is None:
            self.line.pop(key, None)
        else:
            self.line[key] = value

    def _rows(self, nvml: Nvml, rows: tuple[Row, ...]) -> None:
        call, unit, line = nvml.call, self.unit, self.line
        for key, names, args in rows:
            for name in names:
                value = call(unit, name, *args)
                if value is not None:
                    line[key] = value
                    break
                if not nvml.refused(unit, name, *args):
                    # a sick driver is not asked the same thing twice in other words
                    line.pop(key, None)
                    break
            else:
                line.pop(key, None)

    def _utilization(self, nvml: Nvml) -> None:
        """Share of the time with a kernel running, from the ring where there is one."""
        readings = nvml.samples(self.unit, self._ring.since)
        share = None
        first = self._ring.since == 0 and "busy_seconds" not in self.line
        if readings is not None:
            self.line["busy_seconds"], self.line["observed_seconds"], share = self._ring.add(readings)
        elif "busy_seconds" in self.line:
            # nothing newer is no failure; where the ring went away its sums do too
            self.line["busy_seconds"], self.line["observed_seconds"], _ = self._ring.add([])
            if nvml.refused(self.unit, "nvmlDeviceGetSamples", 1):
                del self.line["busy_seconds"], self.line["observed_seconds"]
        self._age = 0 if share is not None else self._age + 1
        if share is not None and not first:
            self.line["utilization_percent"] = share * 100
        elif first or self._age > FRESH:
            rates = nvml.call(self.unit, "nvmlDeviceGetUtilizationRates")
            known = None if share is None else share * 100
            self._set("utilization_percent", known if rates is None else rates.gpu)

    @staticmethod
    def _memory(nvml: Nvml, unit: Unit, line: dict[str, Any]) -> None:
        info = nvml.call(unit, "nvmlDeviceGetMemoryInfo_v2") or nvml.call(unit, "nvmlDeviceGetMemoryInfo")
        if info is None:
            line.pop("memory_used_bytes", None)
            line.pop("memory_total_bytes", None)
        else:
            line["memory_used_bytes"], line["memory_total_bytes"] = info.used, info.total

    def _clocks(self, nvml: Nvml, key: str, name: str) -> None:
        found = {clock: nvml.call(self.unit, name, number) for clock, number in _CLOCKS}
        self.line[key] = {clock: value for clock, value in found.items() if value is not None}

    def _rare(self, nvml: Nvml) -> None:
        self._rows(nvml, _RARE)
        self._clocks(nvml, "clocks_max_megahertz", "nvmlDeviceGetMaxClockInfo")
        pci = nvml.call(self.unit, "nvmlDeviceGetPciInfo_v3")
        self._set("pci", None if pci is None else [pci.domain, pci.bus, pci.device])

    def _mig(self, nvml: Nvml) -> None:
        """MIG mode, and the slices with their own memory."""
        mode = nvml.call(self.unit, "nvmlDeviceGetMigMode")
        self._set("mig", None if mode is None else mode[0])
        self._slices = []
        lines = []
        if mode is not None and mode[0] == 1:
            most = nvml.call(self.unit, "nvmlDeviceGetMaxMigDeviceCount")
            for number in range(min(7 if most is None else most, 64)):
                line = self._slice(nvml, number)
                if line is not None:
                    lines.append(line)
        self._set("slices", lines or None)

    def _slice(self, nvml: Nvml, number: int) -> dict[str, Any] | None:
        handle = nvml.call(self.unit, "nvmlDeviceGetMigDeviceHandleByIndex", number)
        if handle is None:
            return None
        # a slice may be made anew at any time: it does not remember what it does not offer
        unit = Unit(self.unit.name)
        unit.handle, unit.told = handle, self.unit.told
        line = {
            "uuid": nvml.call(unit, "nvmlDeviceGetUUID"),
            "gpu_instance": nvml.call(unit, "nvmlDeviceGetGpuInstanceId"),
            "compute_instance": nvml.call(unit, "nvmlDeviceGetComputeInstanceId"),
        }
        self._memory(nvml, unit, line)
        self._slices.append(unit)
        return {key: value for key, value in line.items() if value is not None}

    def _processes(self, nvml: Nvml) -> None:
        """Processes that hold the GPU: [pid, bytes or None]. A process in two lists counts once."""
        lists = [nvml.call(self.unit, name) for name in _PROCESSES]
        if self._slices and not any(lists):
            # the whole GPU's list needs a privilege that those of the slices do not
            lists += [nvml.call(unit, _PROCESSES[0]) for unit in self._slices]
        if all(found is None for found in lists):
            self._set("processes", None)
            return
        memory: dict[tuple[int, int], int | None] = {}
        for process in (p for found in lists for p in found or ()):
            instance = getattr(process, "gpuInstanceId", _NO_INSTANCE)
            key, used = (process.pid, instance), process.usedGpuMemory
            known = memory.get(key)
            memory[key] = used if known is None else max(known, used or 0)
        pids: dict[int, int | None] = {}
        for (pid, _), used in memory.items():
            before = pids.get(pid, 0)
            pids[pid] = None if used is None or before is None else before + used
        self.line["processes"] = list(pids.items())[:MOST_PROCESSES]
