"""The metrics of GPUs: name, kind, meaning and source of each. `collectors/gpu.py` fills them."""

from __future__ import annotations

from gpuwait.metrics import Family

_GPU = ("gpu", "uuid")
_WORKLOAD = (*_GPU, "workload_kind", "workload_namespace", "workload", "workload_container")
_SLICE = (*_GPU, "mig_uuid", "gpu_instance", "compute_instance")


def _gauge(name: str, text: str, source: str, labels: tuple[str, ...] = _GPU) -> Family:
    return Family(name, "gauge", text, source, labels)


def _counter(name: str, text: str, source: str, labels: tuple[str, ...] = _GPU) -> Family:
    return Family(name, "counter", text, source, labels)


READER_UP = _gauge(
    "gpuwait_gpu_reader_up",
    "1 while the process that reads the GPUs brings readings, else 0.",
    "reader process",
    (),
)
READER_STUCK = _gauge(
    "gpuwait_gpu_reader_stuck_seconds",
    "Seconds for which the driver has not answered the process that reads the GPUs, 0 while it does.",
    "reader process",
    (),
)
READER_RESTARTS = _counter(
    "gpuwait_gpu_reader_restarts_total",
    "Readers that ended by a crash, a kill or a change of the driver.",
    "reader process",
    (),
)
PCI_DEVICES = _gauge(
    "gpuwait_gpu_pci_devices",
    "GPUs on the PCI bus, whether or not the driver has them.",
    "/sys/bus/pci/devices/*/{vendor,class}",
    ("vendor",),
)
DEVICES = _gauge(
    "gpuwait_gpu_devices",
    "GPUs that the driver lists, those off the bus included.",
    "nvmlDeviceGetCount",
    (),
)
UP = _gauge(
    "gpuwait_gpu_up",
    "1 where the GPU answers, 0 where it fell off the bus, has to be reset, or is listed no more.",
    "nvmlDeviceGetHandleByIndex, GPU_IS_LOST",
)
INFO = _gauge(
    "gpuwait_gpu_info",
    "Facts of the GPU, always 1; numa_node is empty where the platform does not tell.",
    "nvmlDeviceGetName, nvmlDeviceGetPciInfo, /sys/bus/pci/devices/*/numa_node",
    (*_GPU, "vendor", "model", "driver", "pci_address", "numa_node"),
)
UTILIZATION = _gauge(
    "gpuwait_gpu_utilization_ratio",
    "Share of the last second with at least one kernel running; high does not mean that work gets done.",
    "nvmlDeviceGetSamples, else nvmlDeviceGetUtilizationRates",
)
BUSY = _counter(
    "gpuwait_gpu_busy_seconds_total",
    "Seconds with at least one kernel running, from the driver's own samples.",
    "nvmlDeviceGetSamples",
)
OBSERVED = _counter(
    "gpuwait_gpu_observed_seconds_total",
    "Seconds that the samples behind gpuwait_gpu_busy_seconds_total cover.",
    "nvmlDeviceGetSamples",
)
MEMORY_USED = _gauge(
    "gpuwait_gpu_memory_used_bytes",
    "Memory in use, without what the driver reserves where it tells that apart.",
    "nvmlDeviceGetMemoryInfo used",
)
MEMORY_TOTAL = _gauge("gpuwait_gpu_memory_total_bytes", "Memory of the GPU.", "nvmlDeviceGetMemoryInfo total")
POWER = _gauge("gpuwait_gpu_power_watts", "Power that the GPU draws.", "nvmlDeviceGetPowerUsage")
POWER_LIMIT = _gauge(
    "gpuwait_gpu_power_limit_watts", "Power limit in force.", "nvmlDeviceGetEnforcedPowerLimit"
)
ENERGY = _counter(
    "gpuwait_gpu_energy_joules_total",
    "Energy used since the driver was loaded.",
    "nvmlDeviceGetTotalEnergyConsumption",
)
TEMPERATURE = _gauge(
    "gpuwait_gpu_temperature_celsius", "Temperature of the chip.", "nvmlDeviceGetTemperature"
)
CLOCK = _gauge(
    "gpuwait_gpu_clock_hertz",
    "Clock now: graphics, sm, memory or video.",
    "nvmlDeviceGetClockInfo",
    (*_GPU, "clock"),
)
CLOCK_MAX = _gauge(
    "gpuwait_gpu_clock_max_hertz",
    "Highest clock of the GPU: graphics, sm, memory or video.",
    "nvmlDeviceGetMaxClockInfo",
    (*_GPU, "clock"),
)
CLOCKS_LIMITED = _gauge(
    "gpuwait_gpu_clocks_limited",
    "1 for each reason that holds the clocks down now, else 0.",
    "nvmlDeviceGetCurrentClocksEventReasons",
    (*_GPU, "reason"),
)
LINK_GENERATION = _gauge(
    "gpuwait_gpu_pcie_link_generation",
    "PCIe generation of the link now; it may fall while the GPU is idle.",
    "nvmlDeviceGetCurrPcieLinkGeneration",
)
LINK_WIDTH = _gauge(
    "gpuwait_gpu_pcie_link_width",
    "PCIe lanes of the link now; they may fall while the GPU is idle.",
    "nvmlDeviceGetCurrPcieLinkWidth",
)
LINK_MAX_GENERATION = _gauge(
    "gpuwait_gpu_pcie_link_max_generation",
    "PCIe generation that the GPU and its slot allow.",
    "nvmlDeviceGetMaxPcieLinkGeneration",
)
LINK_MAX_WIDTH = _gauge(
    "gpuwait_gpu_pcie_link_max_width",
    "PCIe lanes that the GPU and its slot allow.",
    "nvmlDeviceGetMaxPcieLinkWidth",
)
REPLAYS = _counter(
    "gpuwait_gpu_pcie_replays_total", "PCIe packets sent again.", "nvmlDeviceGetPcieReplayCounter"
)
ECC = _counter(
    "gpuwait_gpu_ecc_errors_total",
    "Memory errors since the driver was loaded, corrected or uncorrected.",
    "nvmlDeviceGetTotalEccErrors, volatile",
    (*_GPU, "kind"),
)
XID = _counter(
    "gpuwait_gpu_xid_errors_total",
    "Critical errors (XID) that the driver reported since gpuwait started; only codes that occurred.",
    "nvmlEventSetWait, XID",
    (*_GPU, "xid"),
)
READ_ERRORS = _counter(
    "gpuwait_gpu_read_errors_total",
    "Calls of the driver that failed although it offers them, by kind of error; only kinds that occurred.",
    "NVML return values",
    (*_GPU, "error"),
)
PERSISTENCE = _gauge(
    "gpuwait_gpu_persistence_mode",
    "1 where the driver keeps the GPU initialised while nobody uses it.",
    "nvmlDeviceGetPersistenceMode",
)
MIG_MODE = _gauge(
    "gpuwait_gpu_mig_mode",
    "1 where the GPU is cut into MIG slices; then it has no utilisation of its own.",
    "nvmlDeviceGetMigMode",
)
MIG_MEMORY_USED = _gauge(
    "gpuwait_gpu_mig_memory_used_bytes",
    "Memory in use in a MIG slice, part of that of the whole GPU.",
    "nvmlDeviceGetMemoryInfo used, MIG device",
    _SLICE,
)
MIG_MEMORY_TOTAL = _gauge(
    "gpuwait_gpu_mig_memory_total_bytes",
    "Memory of a MIG slice, part of that of the whole GPU.",
    "nvmlDeviceGetMemoryInfo total, MIG device",
    _SLICE,
)
PROCESSES = _gauge(
    "gpuwait_gpu_processes",
    "Processes that hold the GPU.",
    "nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses",
)
WORKLOAD_INFO = _gauge(
    "gpuwait_gpu_workload_info",
    "Whose the GPU is, always 1: of those whose processes hold it, and of those it is given to.",
    "nvmlDeviceGetComputeRunningProcesses, /proc/PID/cgroup; kubelet PodResources, files of Slurm's prolog",
    _WORKLOAD,
)
ALLOCATED = _gauge(
    "gpuwait_gpu_allocated",
    "1 where the GPU is given to a pod or Slurm job, also if no process uses it; absent where nothing tells.",
    "kubelet PodResources; files of Slurm's prolog",
)
ALLOCATION_AGE = _gauge(
    "gpuwait_gpu_allocation_age_seconds",
    "Age of what the kubelet last said of who was given which GPU.",
    "kubelet PodResources",
    (),
)
WORKLOAD_MEMORY = _gauge(
    "gpuwait_gpu_workload_memory_bytes",
    "GPU memory of the processes of a workload; absent where the driver does not tell for all of them.",
    "nvmlDeviceGetComputeRunningProcesses usedGpuMemory",
    _WORKLOAD,
)

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Family))
