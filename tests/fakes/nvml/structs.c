/* Calls that fill one structure. */
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>

#define UINT_OF(datum, key) ((unsigned int)json_unsigned(json_get(datum, key), 0))
#define U64_OF(datum, key) json_unsigned(json_get(datum, key), 0)

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, memory_t *memory)
{
    struct answer answer;
    nvmlReturn_t result = memory ? fake_begin(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    memory->total = U64_OF(answer.datum, "total");
    memory->free = U64_OF(answer.datum, "free");
    memory->used = U64_OF(answer.datum, "used");
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, memory_v2_t *memory)
{
    struct answer answer;
    if (memory && memory->version != STRUCT_VERSION(memory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = memory ? fake_begin(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    memory->total = U64_OF(answer.datum, "total");
    memory->reserved = U64_OF(answer.datum, "reserved");
    memory->free = U64_OF(answer.datum, "free");
    memory->used = U64_OF(answer.datum, "used");
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, bar1_t *memory)
{
    struct answer answer;
    nvmlReturn_t result = memory ? fake_begin(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    memory->total = U64_OF(answer.datum, "total");
    memory->free = U64_OF(answer.datum, "free");
    memory->used = U64_OF(answer.datum, "used");
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, temperature_t *temperature)
{
    if (temperature && temperature->version != STRUCT_VERSION(temperature_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!temperature || temperature->sensor != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    return answer_uint(__func__, handle, (unsigned int *)&temperature->celsius);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t handle, margin_t *margin)
{
    if (margin && margin->version != STRUCT_VERSION(margin_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return margin ? answer_uint(__func__, handle, (unsigned int *)&margin->celsius) : NVML_ERROR_INVALID_ARGUMENT;
}

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

/* Below version 3 the long bus id stands where reserved words stood, and callers see no harm in it. */
static nvmlReturn_t pci_info(const char *call, nvmlDevice_t handle, pci_t *pci)
{
    struct answer answer;
    nvmlReturn_t result = pci ? fake_begin(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    memset(pci, 0, sizeof *pci);
    pci->domain = UINT_OF(answer.datum, "domain");
    pci->bus = UINT_OF(answer.datum, "bus");
    pci->device = UINT_OF(answer.datum, "device");
    pci->device_id = UINT_OF(answer.datum, "pciDeviceId");
    pci->subsystem_id = UINT_OF(answer.datum, "pciSubSystemId");
    copy_text(pci->bus_id, sizeof pci->bus_id, json_text(json_get(answer.datum, "busId")));
    const char *legacy = json_text(json_get(answer.datum, "busIdLegacy"));
    if (legacy)
        copy_text(pci->bus_id_legacy, sizeof pci->bus_id_legacy, legacy);
    else
        snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "%04X:%02X:%02X.0", pci->domain & 0xFFFF,
                 pci->bus & 0xFF, pci->device & 0xFF);
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, pci_t *pci)
{
    return pci_info(__func__, handle, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t handle, pci_t *pci)
{
    return pci_info(__func__, handle, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t handle, pci_t *pci)
{
    return pci_info(__func__, handle, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t handle, pci_ext_t *ext)
{
    pci_t pci;
    if (ext && ext->version != STRUCT_VERSION(pci_ext_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = ext ? pci_info(__func__, handle, &pci) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *ext = (pci_ext_t){ext->version, pci.domain,       pci.bus, pci.device,
                       pci.device_id, pci.subsystem_id, 3,       2, {0}}; /* class 0302: a 3D controller */
    memcpy(ext->bus_id, pci.bus_id, sizeof ext->bus_id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int *corrected, unsigned int *uncorrected,
                                       unsigned int *pending, unsigned int *failed)
{
    struct answer answer;
    if (!corrected || !uncorrected || !pending || !failed)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fake_begin(__func__, handle, &answer);
    if (result != NVML_SUCCESS)
        return result;
    *corrected = UINT_OF(answer.datum, "corrected");
    *uncorrected = UINT_OF(answer.datum, "uncorrected");
    *pending = UINT_OF(answer.datum, "pending");
    *failed = UINT_OF(answer.datum, "failed");
    fake_end();
    return NVML_SUCCESS;
}

/* A number, read from an object by a key that the arguments make. */
static nvmlReturn_t keyed_u64(const char *call, nvmlDevice_t handle, const char *key, u64 *value)
{
    struct answer answer;
    nvmlReturn_t result = value ? fake_begin(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    const struct json *found = json_get(answer.datum, key);
    result = found ? error_of(found) : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *value = json_unsigned(found, 0);
    fake_end();
    return result;
}

static const char *const ecc_kinds[] = {"corrected", "uncorrected"};
static const char *const ecc_periods[] = {"volatile", "aggregate"};
static const char *const ecc_places[] = {"l1_cache",       "l2_cache",    "dram", "register_file",
                                         "texture_memory", "texture_shm", "cbu",  "sram"};

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned int kind, unsigned int period, u64 *count)
{
    char key[64];
    if (kind > 1 || period > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "%s_%s", ecc_kinds[kind], ecc_periods[period]);
    return keyed_u64(__func__, handle, key, count);
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t handle, unsigned int kind, unsigned int period,
                                             unsigned int place, u64 *count)
{
    char key[64];
    if (kind > 1 || period > 1 || place > 7)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "%s_%s_%s", ecc_kinds[kind], ecc_periods[period], ecc_places[place]);
    return keyed_u64(__func__, handle, key, count);
}

static const char *policy_name(unsigned int policy)
{
    static const char *const names[12] = {"power",           "thermal",     "sync_boost",       "board_limit",
                                          "low_utilization", "reliability", [10] = "total_app_clocks",
                                          [11] = "total_base_clocks"};
    return policy < 12 ? names[policy] : NULL;
}

/* The state holds an object from policy to nanoseconds. */
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t handle, unsigned int policy, violation_t *violation)
{
    if (!violation || !policy_name(policy))
        return NVML_ERROR_INVALID_ARGUMENT;
    violation->reference = now_us();
    return keyed_u64(__func__, handle, policy_name(policy), &violation->violation);
}
