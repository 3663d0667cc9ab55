"""The fake NVML library: process lists, masks, values by number, MIG parts."""

import pytest

pytestmark = pytest.mark.fake_nvml


def one_gpu(**members):
    """A state with one GPU; `calls` and other members as given."""
    return {
        "nvmlInit_v2": "NVML_SUCCESS",
        "devices": [{"index": 0, "uuid": "GPU-1", "name": "H100", "minor": 3, **members}],
    }


def test_processes_in_every_layout(ask_gpu):
    """Versions 2 and 3 carry instance ids, version 1 does not; 2^64-1 bytes are not available: None."""
    processes = [
        {"pid": 41001, "usedGpuMemory": 76235669504},
        {"pid": 41002, "usedGpuMemory": 18446744073709551615, "gpuInstanceId": 2, "computeInstanceId": 0},
        {"pid": 41003},
    ]
    code = """
import pynvml
class V1(Structure):
    _fields_ = [("pid", c_uint), ("memory", c_ulonglong)]
count, old = c_uint(3), (V1 * 3)()
first = pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses(h, byref(count), old)
show = lambda list: [[p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId] for p in list]
result = [show(nvmlDeviceGetComputeRunningProcesses_v3(h)), show(nvmlDeviceGetComputeRunningProcesses_v2(h)),
          first, [[p.pid, p.memory] for p in old], call(nvmlDeviceGetGraphicsRunningProcesses, h),
          nvmlDeviceGetMPSComputeRunningProcesses(h)]"""
    new = [
        [41001, 76235669504, 4294967295, 4294967295],
        [41002, None, 2, 0],
        [41003, None, 4294967295, 4294967295],
    ]
    old = [[41001, 76235669504], [41002, 18446744073709551615], [41003, 18446744073709551615]]
    calls = {
        "nvmlDeviceGetComputeRunningProcesses_v3": processes,
        "nvmlDeviceGetMPSComputeRunningProcesses_v3": [],
    }
    assert ask_gpu(one_gpu(calls=calls), code) == [new, new, 0, old, "error 3", []]


def test_masks_of_cpus_and_memory_nodes(ask_gpu):
    """Affinity is a list of words, the rest of the caller's array is zero; too small an array is an error."""
    calls = {
        "nvmlDeviceGetCpuAffinity": [18446744073709551615, 255],
        "nvmlDeviceGetMemoryAffinity": {"node": 2, "socket": 3},
    }
    code = """
result = [list(nvmlDeviceGetCpuAffinity(h, 3)), call(nvmlDeviceGetCpuAffinity, h, 1),
          list(nvmlDeviceGetCpuAffinityWithinScope(h, 2, 0)),
          [list(nvmlDeviceGetMemoryAffinity(h, 1, scope)) for scope in (0, 1)]]"""
    expected = [[18446744073709551615, 255, 0], "error 7", [18446744073709551615, 255], [[2], [3]]]
    assert ask_gpu(one_gpu(calls=calls), code) == expected


def test_values_by_number(ask_gpu):
    """Field values, GPM metrics and violation times: one that is not there fails alone."""
    calls = {
        "nvmlDeviceGetFieldValues": {"82": 58, "60.1": -4, "61": 0.5, "83": "NVML_ERROR_UNKNOWN"},
        "nvmlGpmQueryDeviceSupport": 1,
        "nvmlGpmMetricsGet": {"2": 48.25},
        "nvmlDeviceGetViolationStatus": {"thermal": 123},
    }
    code = """
fields = nvmlDeviceGetFieldValues(h, [82, (60, 1), (60, 2), 61, 83])
kinds = {0: "dVal", 3: "ullVal", 4: "sllVal"}
samples = [nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()]
for sample in samples:
    nvmlGpmSampleGet(h, sample); time.sleep(0.001)
metrics = c_nvmlGpmMetricsGet_t(version=1, numMetrics=2, sample1=samples[0], sample2=samples[1])
metrics.metrics[0].metricId, metrics.metrics[1].metricId = 2, 3
nvmlGpmMetricsGet(metrics)
result = [[f.nvmlReturn or getattr(f.value, kinds[f.valueType]) for f in fields],
          nvmlGpmQueryDeviceSupport(h).isSupportedDevice,
          metrics.metrics[0].value, metrics.metrics[1].nvmlReturn,
          nvmlDeviceGetViolationStatus(h, 1).violationTime, call(nvmlDeviceGetViolationStatus, h, 0)]"""
    assert ask_gpu(one_gpu(calls=calls), code) == [[58, -4, 3, 0.5, 999], 1, 48.25, 3, 123, "error 3"]


def test_mig_parts(ask_gpu):
    """MIG parts have their own handle, ids and calls, lead back to their GPU, and leave gaps."""
    part = {
        "uuid": "MIG-1",
        "gpu_instance_id": 2,
        "compute_instance_id": 0,
        "calls": {
            "nvmlDeviceGetMemoryInfo": {"total": 20, "used": 5, "free": 15},
            "nvmlDeviceGetPowerUsage": "NVML_ERROR_INVALID_ARGUMENT",
        },
    }
    calls = {"nvmlDeviceGetMigMode": {"current": 1, "pending": 1}, "nvmlDeviceGetPowerUsage": 187300}
    code = """
m = nvmlDeviceGetMigDeviceHandleByIndex(h, 1)
result = [nvmlDeviceGetMigMode(h), nvmlDeviceGetMaxMigDeviceCount(h),
          call(nvmlDeviceGetMigDeviceHandleByIndex, h, 0), call(nvmlDeviceGetMigDeviceHandleByIndex, h, 2),
          nvmlDeviceGetUUID(m), nvmlDeviceGetName(m),
          nvmlDeviceGetGpuInstanceId(m), nvmlDeviceGetComputeInstanceId(m),
          nvmlDeviceGetMemoryInfo(m).used, call(nvmlDeviceGetPowerUsage, m), nvmlDeviceGetPowerUsage(h),
          nvmlDeviceIsMigDeviceHandle(m).value, nvmlDeviceIsMigDeviceHandle(h).value,
          nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m)),
          nvmlDeviceGetGpuInstanceId(nvmlDeviceGetHandleByUUID("MIG-1")),
          call(nvmlDeviceGetGpuInstanceId, h)]"""
    expected = [[1, 1], 7, "error 6", "error 6", "MIG-1", "H100", 2, 0, 5, "error 2", 187300, 1, 0]
    expected += ["GPU-1", 2, "error 3"]
    assert ask_gpu(one_gpu(calls=calls, mig_devices=[None, part]), code) == expected
