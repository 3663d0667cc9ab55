"""The fake NVML library answers the real pynvml with what its state file says."""

import pytest

pytestmark = pytest.mark.fake_nvml

READY = {"library": "ok", "nvmlInit_v2": "NVML_SUCCESS", "driver_version": "570.86.15"}


def one_gpu(**members):
    """A state with one GPU; `calls` and other members as given."""
    return {**READY, "devices": [{"index": 0, "uuid": "GPU-1", "name": "H100", "minor": 3, **members}]}


def test_system_versions_are_the_members_of_the_root(ask):
    """Driver, NVML and CUDA versions come from the root of the state."""
    state = {**READY, "nvml_version": "12.570.86.15", "cuda_driver_version": 12080}
    code = """nvmlInit()
result = [nvmlSystemGetDriverVersion(), nvmlSystemGetNVMLVersion(), nvmlSystemGetCudaDriverVersion(),
          nvmlSystemGetCudaDriverVersion_v2(), nvmlDeviceGetCount()]"""
    assert ask(state, code) == ["570.86.15", "12.570.86.15", 12080, 12080, 0]


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"nvmlInit_v2": "NVML_ERROR_DRIVER_NOT_LOADED"}, 9),
        ({"nvmlInit_v2": "NVML_ERROR_LIB_RM_VERSION_MISMATCH"}, 18),
        ({"library": "missing"}, 12),
        ({"nvmlInit_v2": "NVML_ERROR_NO_SUCH_NAME"}, 999),
    ],
)
def test_init_fails_as_told(ask, members, code):
    """The result of every form of init is the error that the state names; an unknown name is UNKNOWN."""
    assert ask({**READY, **members}, "result = call(nvmlInit)") == f"error {code}"


def test_calls_before_init_and_after_shutdown_are_uninitialized(ask):
    """Init and shutdown are counted; outside of them every call says UNINITIALIZED."""
    code = """import pynvml
pynvml._LoadNvmlLibrary()
result = [call(nvmlDeviceGetCount), call(nvmlShutdown)]
nvmlInit(); nvmlInit(); nvmlShutdown()
result += [call(nvmlDeviceGetCount)]
nvmlShutdown()
result += [call(nvmlDeviceGetCount)]"""
    assert ask(one_gpu(), code) == ["error 1", "error 1", 1, "error 1"]


def test_error_texts(ask):
    """nvmlErrorString knows the codes that pynvml cannot name by itself."""
    code = "nvmlInit(); result = [nvmlErrorString(15), nvmlErrorString(9), nvmlErrorString(4242)]"
    assert ask(READY, code) == ["GPU is lost", "Driver Not Loaded", "Unknown Error"]


def test_identity_of_a_device(ask_gpu):
    """Name, uuid, minor number and index are members of the device, and it is found by each of its names."""
    pci = {"busId": "00000000:18:00.0", "domain": 0, "bus": 24, "device": 0}
    state = one_gpu(calls={"nvmlDeviceGetPciInfo_v3": pci, "nvmlDeviceGetSerial": "1650"})
    code = """
found = [nvmlDeviceGetHandleByUUID("GPU-1"), nvmlDeviceGetHandleByPciBusId("0000:18:00.0"),
         nvmlDeviceGetHandleByPciBusId("00000000:18:00"), nvmlDeviceGetHandleBySerial("1650")]
result = [nvmlDeviceGetName(h), nvmlDeviceGetUUID(h), nvmlDeviceGetMinorNumber(h), nvmlDeviceGetIndex(h),
          [nvmlDeviceGetIndex(f) for f in found], call(nvmlDeviceGetHandleByUUID, "GPU-2"),
          call(nvmlDeviceGetHandleByIndex, 1)]"""
    assert ask_gpu(state, code) == ["H100", "GPU-1", 3, 0, [0, 0, 0, 0], "error 6", "error 2"]


def test_pci_info_in_every_version(ask_gpu):
    """The long bus id, the short one made from the numbers, and the structure with a version."""
    pci = {"busId": "00000000:9A:00.0", "domain": 0, "bus": 154, "device": 0, "pciDeviceId": 590352606}
    code = """
a = nvmlDeviceGetPciInfo_v3(h)
b = nvmlPciInfoExt_v1_t(version=nvmlPciInfoExt_v1)
nvmlDeviceGetPciInfoExt(h, byref(b))
bad = nvmlPciInfoExt_v1_t(version=7)
result = [a.busId, a.busIdLegacy, a.domain, a.bus, a.device, a.pciDeviceId, a.pciSubSystemId,
          b.busId, b.bus, b.baseClass, call(nvmlDeviceGetPciInfoExt, h, byref(bad))]"""
    expected = [
        "00000000:9A:00.0",
        "0000:9A:00.0",
        0,
        154,
        0,
        590352606,
        0,
        "00000000:9A:00.0",
        154,
        3,
        "error 25",
    ]
    assert ask_gpu(one_gpu(calls={"nvmlDeviceGetPciInfo_v3": pci}), code) == expected


def test_a_call_without_an_entry_is_not_supported(ask_gpu):
    """Absent, null and NVML_ERROR_NOT_SUPPORTED are the same; the wildcard answers for the rest."""
    code = "result = [call(f, h) for f in (nvmlDeviceGetFanSpeed, nvmlDeviceGetPowerUsage)]"
    assert ask_gpu(one_gpu(calls={"nvmlDeviceGetFanSpeed": None}), code) == ["error 3", "error 3"]
    assert ask_gpu(one_gpu(calls={"nvmlDeviceGetFanSpeed": 30, "*": "NVML_ERROR_UNKNOWN"}), code) == [
        30,
        "error 999",
    ]


def test_single_numbers(ask_gpu):
    """Calls of one number, 32 and 64 bits wide, keep their value; 2^53 + 1 is not rounded."""
    calls = {
        "nvmlDeviceGetPowerUsage": 287450,
        "nvmlDeviceGetEnforcedPowerLimit": 700000,
        "nvmlDeviceGetPowerManagementLimit": 650000,
        "nvmlDeviceGetTotalEnergyConsumption": 9007199254740993,
        "nvmlDeviceGetPerformanceState": 2,
        "nvmlDeviceGetCurrPcieLinkGeneration": 4,
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": 6,
        "nvmlDeviceGetPcieSpeed": 16000,
        "nvmlDeviceGetPcieReplayCounter": 12,
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetNumaNodeId": 1,
    }
    code = f"result = [globals()[name](h) for name in {list(calls)}] + [nvmlDeviceGetPowerState(h)]"
    expected = [287450, 700000, 650000, 9007199254740993, 2, 4, 8, 5, 16, 6, 16000, 12, 1, 1, 2]
    assert ask_gpu(one_gpu(calls=calls), code) == expected


def test_numbers_chosen_by_an_argument(ask_gpu):
    """Clocks, thresholds, PCIe throughput and fans go by number; one that is not there is unsupported."""
    calls = {
        "nvmlDeviceGetClockInfo": {"graphics": 1980, "sm": 1975, "mem": 2619},
        "nvmlDeviceGetMaxClockInfo": {"sm": 1995},
        "nvmlDeviceGetTemperature": 55,
        "nvmlDeviceGetTemperatureThreshold": {"shutdown": 92, "slowdown": 89},
        "nvmlDeviceGetPcieThroughput": {"tx": 5, "rx": 7},
        "nvmlDeviceGetFanSpeed": 30,
        "nvmlDeviceGetFanSpeed_v2": [30, 41],
    }
    code = """
result = [[call(nvmlDeviceGetClockInfo, h, n) for n in range(5)], nvmlDeviceGetMaxClockInfo(h, 1),
          [call(nvmlDeviceGetTemperature, h, n) for n in (0, 1)],
          [call(nvmlDeviceGetTemperatureThreshold, h, n) for n in (0, 1, 2)],
          [nvmlDeviceGetPcieThroughput(h, n) for n in (0, 1)],
          [call(nvmlDeviceGetFanSpeed_v2, h, n) for n in (0, 1, 2)], nvmlDeviceGetFanSpeed(h)]"""
    expected = [
        [1980, 1975, 2619, "error 3", "error 2"],
        1995,
        [55, "error 2"],
        [92, 89, "error 3"],
        [5, 7],
        [30, 41, "error 3"],
        30,
    ]
    assert ask_gpu(one_gpu(calls=calls), code) == expected


def test_temperature_in_a_structure(ask_gpu):
    """The newer call reads the same number; a structure of another version is refused. Not in old pynvml."""
    code = """
import pynvml
class Temperature(Structure):
    _fields_ = [("version", c_uint), ("sensor", c_uint), ("celsius", c_int)]
good, bad = Temperature(0x0100000C, 0, 0), Temperature(0x0200000C, 0, 0)
result = [pynvml.nvmlLib.nvmlDeviceGetTemperatureV(h, byref(t)) for t in (good, bad)] + [good.celsius]"""
    assert ask_gpu(one_gpu(calls={"nvmlDeviceGetTemperature": -3}), code) == [0, 25, -3]


def test_both_names_of_the_clock_reasons(ask_gpu):
    """Event reasons and throttle reasons read one mask, whichever name the state uses."""
    names = ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"]
    for name in names:
        state = one_gpu(calls={name: 0x44})
        assert ask_gpu(state, f"result = [globals()[name](h) for name in {names}]") == [68, 68]


def test_memory_in_both_layouts(ask_gpu):
    """Version 1 has no reserved memory; version 2 has, and refuses a structure of another version."""
    calls = {
        "nvmlDeviceGetMemoryInfo": {"total": 85899345920, "used": 34359738368, "free": 51539607552},
        "nvmlDeviceGetMemoryInfo_v2": {"total": 85899345920, "reserved": 1048576, "used": 7, "free": 9},
    }
    code = """
a, b = nvmlDeviceGetMemoryInfo(h), nvmlDeviceGetMemoryInfo(h, version=nvmlMemory_v2)
result = [a.total, a.used, a.free, b.total, b.reserved, b.used, b.free]
result += [call(nvmlDeviceGetMemoryInfo, h, 3)]"""
    expected = [85899345920, 34359738368, 51539607552, 85899345920, 1048576, 7, 9, "error 25"]
    assert ask_gpu(one_gpu(calls=calls), code) == expected


def test_ecc_and_repairs(ask_gpu):
    """ECC totals and places by kind and period; rows and pages that were replaced."""
    calls = {
        "nvmlDeviceGetEccMode": {"current": 1, "pending": 0},
        "nvmlDeviceGetTotalEccErrors": {
            "corrected_volatile": 2,
            "uncorrected_volatile": 0,
            "uncorrected_aggregate": 5,
        },
        "nvmlDeviceGetMemoryErrorCounter": {"corrected_volatile_dram": 2, "uncorrected_aggregate_sram": 4},
        "nvmlDeviceGetRemappedRows": {"corrected": 1, "uncorrected": 2, "pending": 1, "failed": 0},
        "nvmlDeviceGetRetiredPages": {"double_bit": [{"address": 4096, "timestamp": 1700000000}]},
    }
    code = """
totals = [call(nvmlDeviceGetTotalEccErrors, h, *n) for n in ((0, 0), (1, 0), (0, 1), (1, 1))]
result = [nvmlDeviceGetEccMode(h), totals,
          nvmlDeviceGetMemoryErrorCounter(h, 0, 0, 2), nvmlDeviceGetMemoryErrorCounter(h, 1, 1, 7),
          nvmlDeviceGetRemappedRows(h),
          nvmlDeviceGetRetiredPages_v2(h, 1), nvmlDeviceGetRetiredPages(h, 0)]"""
    expected = [
        [1, 0],
        [2, 0, "error 3", 5],
        2,
        4,
        [1, 2, 1, 0],
        [{"address": 4096, "timestamp": 1700000000}],
        [],
    ]
    assert ask_gpu(one_gpu(calls=calls), code) == expected
