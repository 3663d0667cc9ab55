/* Error names and texts, and calls that share one answer. */
#include "fake_nvml.h"

#include <stddef.h>
#include <string.h>

#define ERROR(name, text) {#name, name, text}

static const struct {
    const char *name;
    nvmlReturn_t code;
    const char *text;
} errors[] = {
    ERROR(NVML_SUCCESS, "Success"),
    ERROR(NVML_ERROR_UNINITIALIZED, "Uninitialized"),
    ERROR(NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"),
    ERROR(NVML_ERROR_NOT_SUPPORTED, "Not Supported"),
    ERROR(NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"),
    ERROR(NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized"),
    ERROR(NVML_ERROR_NOT_FOUND, "Not Found"),
    ERROR(NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"),
    ERROR(NVML_ERROR_INSUFFICIENT_POWER, "Insufficient External Power"),
    ERROR(NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"),
    ERROR(NVML_ERROR_TIMEOUT, "Timeout"),
    ERROR(NVML_ERROR_IRQ_ISSUE, "Interrupt Request Issue"),
    ERROR(NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"),
    ERROR(NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"),
    ERROR(NVML_ERROR_CORRUPTED_INFOROM, "Corrupted infoROM"),
    ERROR(NVML_ERROR_GPU_IS_LOST, "GPU is lost"),
    ERROR(NVML_ERROR_RESET_REQUIRED, "GPU requires restart"),
    ERROR(NVML_ERROR_OPERATING_SYSTEM, "Blocked by the operating system"),
    ERROR(NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"),
    ERROR(NVML_ERROR_IN_USE, "In use by another client"),
    ERROR(NVML_ERROR_MEMORY, "Insufficient Memory"),
    ERROR(NVML_ERROR_NO_DATA, "No data"),
    ERROR(NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, "ECC not supported with vGPU"),
    ERROR(NVML_ERROR_INSUFFICIENT_RESOURCES, "Insufficient resources"),
    ERROR(NVML_ERROR_FREQ_NOT_SUPPORTED, "Frequency not supported"),
    ERROR(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"),
    ERROR(NVML_ERROR_DEPRECATED, "Deprecated"),
    ERROR(NVML_ERROR_NOT_READY, "Not ready"),
    ERROR(NVML_ERROR_GPU_NOT_FOUND, "GPU not found"),
    ERROR(NVML_ERROR_INVALID_STATE, "Invalid state"),
    ERROR(NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, "Reset type not supported"),
    ERROR(NVML_ERROR_UNKNOWN, "Unknown Error"),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* An unknown "NVML_ERROR_..." is a slip in the state: UNKNOWN, not a success that hides it. */
nvmlReturn_t error_of(const struct json *node)
{
    const char *name = json_text(node);
    if (!name || strncmp(name, "NVML_ERROR_", 11) != 0)
        return NVML_SUCCESS;
    for (size_t i = 0; i < COUNT(errors); i++)
        if (strcmp(errors[i].name, name) == 0)
            return errors[i].code;
    return NVML_ERROR_UNKNOWN;
}

const char *error_text(nvmlReturn_t code)
{
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].code == code)
            return errors[i].text;
    return "Unknown Error";
}

/* Every call of a row has the answer of the first one that the state names. */
static const char *const same[][7] = {
    {"nvmlInit_v2", "nvmlInitWithFlags", "nvmlInit"},
    {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
    {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
    {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"},
    {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
    {"nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons"},
    {"nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"},
    {"nvmlDeviceGetFanSpeed", "nvmlDeviceGetFanSpeed_v2"},
    {"nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState"},
    {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfoExt"},
    {"nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes"},
    {"nvmlDeviceGetRetiredPages", "nvmlDeviceGetRetiredPages_v2"},
    {"nvmlDeviceGetCpuAffinity", "nvmlDeviceGetCpuAffinityWithinScope"},
    {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
     "nvmlDeviceGetComputeRunningProcesses"},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
     "nvmlDeviceGetGraphicsRunningProcesses"},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
     "nvmlDeviceGetMPSComputeRunningProcesses"},
    {"nvmlEventSetWait_v2", "nvmlEventSetWait"},
};

const char *alias_of(const char *call, int step)
{
    for (size_t row = 0; row < COUNT(same); row++)
        for (int i = 0; same[row][i]; i++)
            if (strcmp(same[row][i], call) == 0)
                return step < 6 ? same[row][step] : NULL;
    return NULL;
}
