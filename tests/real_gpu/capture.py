"""What NVML says about every GPU here, as a state file of the fake NVML, and how long each call takes."""

import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import pynvml as nvml

REPEATS = 20
#: A call that is slow is not repeated for longer than this.
PATIENCE_S = 0.4

Fields = tuple[str, ...]

NUMBERS = """
PowerUsage EnforcedPowerLimit PowerManagementLimit PowerManagementDefaultLimit TotalEnergyConsumption
PerformanceState FanSpeed NumFans CurrPcieLinkGeneration CurrPcieLinkWidth MaxPcieLinkGeneration
MaxPcieLinkWidth GpuMaxPcieLinkGeneration PcieReplayCounter PcieSpeed PersistenceMode ComputeMode Brand
Architecture BoardId NumaNodeId VirtualizationMode RetiredPagesPendingStatus CurrentClocksEventReasons
SupportedClocksEventReasons SupportedEventTypes MaxMigDeviceCount NumGpuCores MemoryBusWidth VbiosVersion
BoardPartNumber
""".split()

PAIRS: dict[str, Fields] = {
    "MigMode": ("current", "pending"),
    "EccMode": ("current", "pending"),
    "PowerManagementLimitConstraints": ("min", "max"),
    "CudaComputeCapability": ("major", "minor"),
    "EncoderUtilization": ("utilization", "sampling_period_us"),
    "DecoderUtilization": ("utilization", "sampling_period_us"),
    "RemappedRows": ("corrected", "uncorrected", "pending", "failed"),
}
STRUCTS: dict[str, Fields] = {
    "MemoryInfo": ("total", "used", "free"),
    "UtilizationRates": ("gpu", "memory"),
    "PciInfo_v3": ("busId", "busIdLegacy", "domain", "bus", "device", "pciDeviceId", "pciSubSystemId"),
}
CLOCKS = {"graphics": 0, "sm": 1, "mem": 2, "video": 3}
CHOICES: dict[str, dict[str, int]] = {
    "ClockInfo": CLOCKS,
    "MaxClockInfo": CLOCKS,
    "TemperatureThreshold": {"shutdown": 0, "slowdown": 1, "mem_max": 2, "gpu_max": 3},
    "PcieThroughput": {"tx": 0, "rx": 1},
}
PROCESS_LISTS = ("ComputeRunningProcesses_v3", "GraphicsRunningProcesses_v3", "MPSComputeRunningProcesses_v3")
ERRORS = {value: name for name, value in vars(nvml).items() if re.fullmatch("NVML_ERROR_[A-Z_]+", name)}


class Capture:
    """The state so far, and the microseconds that each call took."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def ask(self, name: str, function: Callable[[], Any]) -> Any:
        """The answer, or the name of the error. Takes the time of some more calls of the same kind."""
        begin = time.monotonic()
        for turn in range(REPEATS):
            start = time.perf_counter_ns()
            try:
                answer = function()
            except nvml.NVMLError as error:
                answer = ERRORS.get(error.value, "NVML_ERROR_UNKNOWN")
            self.times.setdefault(name, []).append((time.perf_counter_ns() - start) / 1000)
            if turn and time.monotonic() - begin > PATIENCE_S:
                break
        return answer

    def choice(self, name: str, names: dict[str, int], handle: Any) -> Any:
        """One call for each number; a single error where all fail in the same way."""
        getter = getattr(nvml, f"nvmlDeviceGet{name}")
        found = {
            key: self.ask(f"nvmlDeviceGet{name}", lambda n=n: getter(handle, n)) for key, n in names.items()
        }
        values = set(map(str, found.values()))
        return next(iter(found.values())) if len(values) == 1 and "NVML_" in values.pop() else found

    def calls(self, handle: Any) -> dict[str, Any]:
        """The member `calls` of a device."""
        found: dict[str, Any] = {}
        for name in NUMBERS:
            found[name] = self.ask(f"nvmlDeviceGet{name}", lambda n=name: plain(getter(n)(handle)))
        for name, keys in PAIRS.items():
            found[name] = self.ask(
                f"nvmlDeviceGet{name}", lambda n=name, k=keys: dict(zip(k, getter(n)(handle), strict=True))
            )
        for name, keys in STRUCTS.items():
            found[name] = self.ask(
                f"nvmlDeviceGet{name}", lambda n=name, k=keys: members(getter(n)(handle), k)
            )
        found["MemoryInfo_v2"] = self.ask(
            "nvmlDeviceGetMemoryInfo_v2",
            lambda: members(
                nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2),
                ("total", "reserved", "used", "free"),
            ),
        )
        for name, names in CHOICES.items():
            found[name] = self.choice(name, names, handle)
        found["Temperature"] = self.ask(
            "nvmlDeviceGetTemperature", lambda: nvml.nvmlDeviceGetTemperature(handle, 0)
        )
        found["TotalEccErrors"] = self.ecc(handle)
        for name in PROCESS_LISTS:
            found[name] = self.ask(f"nvmlDeviceGet{name}", lambda n=name: processes(getter(n)(handle)))
        found["ProcessUtilization"] = self.ask("nvmlDeviceGetProcessUtilization", lambda: process_use(handle))
        found["MemoryAffinity"] = self.ask(
            "nvmlDeviceGetMemoryAffinity", lambda: list(nvml.nvmlDeviceGetMemoryAffinity(handle, 4, 0))
        )
        whole = {f"nvmlDeviceGet{name}": value for name, value in found.items()}
        whole["nvmlGpmQueryDeviceSupport"] = self.ask(
            "nvmlGpmQueryDeviceSupport", lambda: nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
        )
        return whole

    def ecc(self, handle: Any) -> Any:
        """Totals by kind and period."""
        kinds, periods = ("corrected", "uncorrected"), ("volatile", "aggregate")
        names = {
            f"{kind}_{period}": (k, p) for k, kind in enumerate(kinds) for p, period in enumerate(periods)
        }
        name = "nvmlDeviceGetTotalEccErrors"
        found = {
            key: self.ask(name, lambda n=n: nvml.nvmlDeviceGetTotalEccErrors(handle, *n))
            for key, n in names.items()
        }
        return found if any(isinstance(v, int) for v in found.values()) else found["corrected_volatile"]

    def samples(self, handle: Any) -> Any:
        """The whole buffer of utilisation, oldest first."""
        answer = self.ask("nvmlDeviceGetSamples", lambda: nvml.nvmlDeviceGetSamples(handle, 1, 0)[1])
        if isinstance(answer, str):
            return answer
        rows = sorted((s.timeStamp, s.sampleValue.uiVal) for s in answer if s.timeStamp)
        return [{"timestamp_us": at, "value": value} for at, value in rows]

    def device(self, index: int) -> dict[str, Any]:
        """One entry of `devices`."""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            return {
                "index": index,
                "nvmlDeviceGetHandleByIndex_v2": ERRORS.get(error.value, "NVML_ERROR_UNKNOWN"),
            }
        self.events(handle)
        return {
            "index": index,
            "nvmlDeviceGetHandleByIndex_v2": "NVML_SUCCESS",
            "uuid": nvml.nvmlDeviceGetUUID(handle),
            "name": nvml.nvmlDeviceGetName(handle),
            "minor": self.ask("nvmlDeviceGetMinorNumber", lambda: nvml.nvmlDeviceGetMinorNumber(handle)),
            "samples": self.samples(handle),
            "calls": self.calls(handle),
            "mig_devices": list(self.mig(handle)),
        }

    def events(self, handle: Any) -> None:
        """Only the time that a look at the critical errors takes, with nothing there: it must not wait."""
        try:
            group = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, group)
        except nvml.NVMLError as error:
            print(f"no events: {error}")
            return
        said = self.ask("nvmlEventSetWait_v2(0)", lambda: nvml.nvmlEventSetWait_v2(group, 0).eventType)
        print(f"a look at the critical errors, with nothing there: {said}")
        nvml.nvmlEventSetFree(group)

    def mig(self, handle: Any) -> Any:
        """The MIG parts of a GPU, None for an empty place."""
        try:
            current, places = (
                nvml.nvmlDeviceGetMigMode(handle)[0],
                nvml.nvmlDeviceGetMaxMigDeviceCount(handle),
            )
        except nvml.NVMLError:
            return
        for place in range(places if current else 0):
            try:
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            except nvml.NVMLError:
                yield None
                continue
            yield {
                "uuid": nvml.nvmlDeviceGetUUID(part),
                "name": nvml.nvmlDeviceGetName(part),
                "gpu_instance_id": nvml.nvmlDeviceGetGpuInstanceId(part),
                "compute_instance_id": nvml.nvmlDeviceGetComputeInstanceId(part),
                "samples": self.samples(part),
                "calls": self.calls(part),
            }

    def state(self) -> dict[str, Any]:
        """The whole state file."""
        return {
            "library": "ok",
            "nvmlInit_v2": "NVML_SUCCESS",
            "driver_version": nvml.nvmlSystemGetDriverVersion(),
            "nvml_version": nvml.nvmlSystemGetNVMLVersion(),
            "cuda_driver_version": nvml.nvmlSystemGetCudaDriverVersion_v2(),
            "device_count": nvml.nvmlDeviceGetCount(),
            "devices": [self.device(index) for index in range(nvml.nvmlDeviceGetCount())],
        }

    def table(self) -> list[tuple[str, int, float, float]]:
        """Call, times called, median and longest microseconds; slowest first."""
        rows = [(name, len(us), statistics.median(us), max(us)) for name, us in self.times.items()]
        return sorted(rows, key=lambda row: -row[2])


def getter(name: str) -> Callable[..., Any]:
    """The function of pynvml, NOT_SUPPORTED where this pynvml has none."""

    def missing(*_: object) -> None:
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)

    return getattr(nvml, f"nvmlDeviceGet{name}", missing)


def plain(value: Any) -> Any:
    """A number or text out of a ctypes object, which some functions of pynvml return."""
    return getattr(value, "value", value)


def members(struct: Any, names: Fields) -> dict[str, Any]:
    """Some members of a structure."""
    return {name: getattr(struct, name) for name in names}


def processes(found: list[Any]) -> list[dict[str, int]]:
    """A process list; memory that is not available is left out."""
    names = ("pid", "usedGpuMemory", "gpuInstanceId", "computeInstanceId")
    return [{n: getattr(p, n) for n in names if getattr(p, n) is not None} for p in found]


def process_use(handle: Any) -> list[dict[str, int]]:
    """Use by process, all that the driver keeps."""
    names = ("pid", "timeStamp", "smUtil", "memUtil", "encUtil", "decUtil")
    return [{n: getattr(p, n) for n in names} for p in nvml.nvmlDeviceGetProcessUtilization(handle, 0)]


def anonymous(state: dict[str, Any]) -> dict[str, Any]:
    """The state without what identifies this one machine. Changes the state that is given."""
    for number, device in enumerate(state["devices"]):
        for place, part in enumerate(device.get("mig_devices") or []):
            if part:
                part["uuid"] = f"MIG-00000000-0000-4000-8000-{number:06d}{place:06d}"
        if "uuid" in device:
            device["uuid"] = f"GPU-00000000-0000-4000-8000-{number:012d}"
    return state
