/* The many calls that are one or two numbers, or one text: a line each. */
#include "fake_nvml.h"

#define COUNT(array) ((unsigned int)(sizeof(array) / sizeof((array)[0])))

#define UINT(call)                                                                                          \
    nvmlReturn_t call(nvmlDevice_t handle, unsigned int *value)                                             \
    {                                                                                                       \
        return answer_uint(__func__, handle, value);                                                        \
    }

#define U64(call)                                                                                           \
    nvmlReturn_t call(nvmlDevice_t handle, u64 *value)                                                      \
    {                                                                                                       \
        return answer_u64(__func__, handle, value);                                                         \
    }

#define TEXT(call)                                                                                          \
    nvmlReturn_t call(nvmlDevice_t handle, char *text, unsigned int size)                                   \
    {                                                                                                       \
        return answer_text(__func__, handle, NULL, text, size);                                             \
    }

/* The state holds an object with these two members. */
#define PAIR(call, first_key, second_key)                                                                   \
    nvmlReturn_t call(nvmlDevice_t handle, unsigned int *first, unsigned int *second)                       \
    {                                                                                                       \
        static const char *const keys[2] = {first_key, second_key};                                         \
        return answer_pair(__func__, handle, keys, first, second);                                          \
    }

/* The state holds an object from name to number, or one number for all. */
#define CHOICE(call, names)                                                                                 \
    nvmlReturn_t call(nvmlDevice_t handle, unsigned int choice, unsigned int *value)                        \
    {                                                                                                       \
        return answer_choice(__func__, handle, names, COUNT(names), choice, value);                         \
    }

/* The state holds a list, or one number for all. */
#define ELEMENT(call)                                                                                       \
    nvmlReturn_t call(nvmlDevice_t handle, unsigned int place, unsigned int *value)                         \
    {                                                                                                       \
        return answer_choice(__func__, handle, NULL, ~0u, place, value);                                    \
    }

static const char *const clocks[] = {"graphics", "sm", "mem", "video"};
static const char *const directions[] = {"tx", "rx"};
static const char *const sensors[] = {"gpu"};
static const char *const thresholds[] = {"shutdown",     "slowdown",     "mem_max",      "gpu_max",
                                         "acoustic_min", "acoustic_curr", "acoustic_max", "gps_curr"};

UINT(nvmlDeviceGetPowerUsage)
UINT(nvmlDeviceGetEnforcedPowerLimit)
UINT(nvmlDeviceGetPowerManagementLimit)
UINT(nvmlDeviceGetPowerManagementDefaultLimit)
UINT(nvmlDeviceGetPowerManagementMode)
UINT(nvmlDeviceGetPowerSource)
UINT(nvmlDeviceGetPowerState)
UINT(nvmlDeviceGetPerformanceState)
UINT(nvmlDeviceGetFanSpeed)
UINT(nvmlDeviceGetNumFans)
UINT(nvmlDeviceGetCurrPcieLinkGeneration)
UINT(nvmlDeviceGetCurrPcieLinkWidth)
UINT(nvmlDeviceGetMaxPcieLinkGeneration)
UINT(nvmlDeviceGetMaxPcieLinkWidth)
UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration)
UINT(nvmlDeviceGetPcieReplayCounter)
UINT(nvmlDeviceGetPcieSpeed)
UINT(nvmlDeviceGetPcieLinkMaxSpeed)
UINT(nvmlDeviceGetPersistenceMode)
UINT(nvmlDeviceGetComputeMode)
UINT(nvmlDeviceGetDisplayMode)
UINT(nvmlDeviceGetDisplayActive)
UINT(nvmlDeviceGetDefaultEccMode)
UINT(nvmlDeviceGetRetiredPagesPendingStatus)
UINT(nvmlDeviceGetBrand)
UINT(nvmlDeviceGetArchitecture)
UINT(nvmlDeviceGetBoardId)
UINT(nvmlDeviceGetMultiGpuBoard)
UINT(nvmlDeviceGetNumaNodeId)
UINT(nvmlDeviceGetVirtualizationMode)
UINT(nvmlDeviceGetNumGpuCores)
UINT(nvmlDeviceGetMemoryBusWidth)
UINT(nvmlDeviceGetIrqNum)
UINT(nvmlDeviceGetModuleId)
UINT(nvmlDeviceGetBusType)
UINT(nvmlDeviceGetAccountingMode)

U64(nvmlDeviceGetTotalEnergyConsumption)
U64(nvmlDeviceGetCurrentClocksEventReasons)
U64(nvmlDeviceGetCurrentClocksThrottleReasons)
U64(nvmlDeviceGetSupportedClocksEventReasons)
U64(nvmlDeviceGetSupportedClocksThrottleReasons)
U64(nvmlDeviceGetSupportedEventTypes)

TEXT(nvmlDeviceGetSerial)
TEXT(nvmlDeviceGetVbiosVersion)
TEXT(nvmlDeviceGetInforomImageVersion)
TEXT(nvmlDeviceGetBoardPartNumber)

PAIR(nvmlDeviceGetMigMode, "current", "pending")
PAIR(nvmlDeviceGetEccMode, "current", "pending")
PAIR(nvmlDeviceGetDriverModel, "current", "pending")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "min", "max")
PAIR(nvmlDeviceGetMinMaxFanSpeed, "min", "max")
PAIR(nvmlDeviceGetCudaComputeCapability, "major", "minor")
PAIR(nvmlDeviceGetEncoderUtilization, "utilization", "sampling_period_us")
PAIR(nvmlDeviceGetDecoderUtilization, "utilization", "sampling_period_us")
PAIR(nvmlDeviceGetGpuOperationMode, "current", "pending")

CHOICE(nvmlDeviceGetClockInfo, clocks)
CHOICE(nvmlDeviceGetMaxClockInfo, clocks)
CHOICE(nvmlDeviceGetApplicationsClock, clocks)
CHOICE(nvmlDeviceGetDefaultApplicationsClock, clocks)
CHOICE(nvmlDeviceGetMaxCustomerBoostClock, clocks)
CHOICE(nvmlDeviceGetPcieThroughput, directions)
CHOICE(nvmlDeviceGetTemperature, sensors)
CHOICE(nvmlDeviceGetTemperatureThreshold, thresholds)

ELEMENT(nvmlDeviceGetFanSpeed_v2)
ELEMENT(nvmlDeviceGetTargetFanSpeed)
ELEMENT(nvmlDeviceGetNvLinkState)
ELEMENT(nvmlDeviceGetNvLinkVersion)
