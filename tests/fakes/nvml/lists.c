/* Calls that fill an array of the caller: ask for the size, then for the data. */
#include "fake_nvml.h"

#include <string.h>

#define UINT_OF(datum, key, fallback) ((unsigned int)json_unsigned(json_get(datum, key), fallback))

/*
 * The protocol that most of the list calls share: `*count` is the room, and becomes what is needed.
 * An empty list is a success even without room.
 */
static nvmlReturn_t check_room(size_t needed, unsigned int *count, const void *room)
{
    nvmlReturn_t result = NVML_SUCCESS;
    if (needed > *count)
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    else if (needed > 0 && !room)
        result = NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned int)needed;
    return result;
}

static void put_process(const struct json *process, process_v2_t *out)
{
    out->pid = UINT_OF(process, "pid", 0);
    out->memory = json_unsigned(json_get(process, "usedGpuMemory"), NOT_AVAILABLE);
    out->gpu_instance = UINT_OF(process, "gpuInstanceId", NO_INSTANCE);
    out->compute_instance = UINT_OF(process, "computeInstanceId", NO_INSTANCE);
}

/* Exactly one of the two arrays is written, as its version is laid out. */
static nvmlReturn_t processes(const char *call, nvmlDevice_t handle, unsigned int *count, process_v1_t *v1,
                              process_v2_t *v2)
{
    struct answer answer;
    nvmlReturn_t result = count ? fake_begin(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    result = check_room(json_length(answer.datum), count, v1 ? (void *)v1 : (void *)v2);
    const struct json *process = result == NVML_SUCCESS ? answer.datum->child : NULL;
    for (; process; process = process->next) {
        process_v2_t whole = {0};
        put_process(process, &whole);
        if (v1)
            *v1++ = (process_v1_t){.pid = whole.pid, .memory = whole.memory};
        else
            *v2++ = whole;
    }
    fake_end();
    return result;
}

#define PROCESSES(call)                                                                                     \
    nvmlReturn_t call(nvmlDevice_t handle, unsigned int *count, process_v1_t *list)                         \
    {                                                                                                       \
        return processes(__func__, handle, count, list, NULL);                                              \
    }                                                                                                       \
    nvmlReturn_t call##_v2(nvmlDevice_t handle, unsigned int *count, process_v2_t *list)                    \
    {                                                                                                       \
        return processes(__func__, handle, count, NULL, list);                                              \
    }                                                                                                       \
    nvmlReturn_t call##_v3(nvmlDevice_t handle, unsigned int *count, process_v2_t *list)                    \
    {                                                                                                       \
        return processes(__func__, handle, count, NULL, list);                                              \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)

/* An entry without a timestamp was just recorded. */
static u64 use_time(const struct json *entry)
{
    return json_unsigned(json_get(entry, "timeStamp"), now_us());
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle, process_use_t *list, unsigned int *count, u64 since)
{
    struct answer answer;
    nvmlReturn_t result = count ? fake_begin(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    size_t needed = 0;
    const struct json *entry = answer.datum->child;
    for (; entry; entry = entry->next)
        needed += use_time(entry) > since;
    result = needed ? check_room(needed, count, list) : NVML_ERROR_NOT_FOUND;
    for (entry = result == NVML_SUCCESS ? answer.datum->child : NULL; entry; entry = entry->next) {
        if (use_time(entry) <= since)
            continue;
        *list++ = (process_use_t){.pid = UINT_OF(entry, "pid", 0),
                                  .timestamp = use_time(entry),
                                  .sm = UINT_OF(entry, "smUtil", 0),
                                  .memory = UINT_OF(entry, "memUtil", 0),
                                  .encoder = UINT_OF(entry, "encUtil", 0),
                                  .decoder = UINT_OF(entry, "decUtil", 0)};
    }
    fake_end();
    return result;
}

/* Words of a bit mask: a list, one number, or an object from scope to either. The rest is 0. */
static nvmlReturn_t put_mask(const struct json *datum, unsigned int words, unsigned long *mask)
{
    size_t needed = datum && datum->type == JSON_ARRAY ? json_length(datum) : 1;
    if (!datum || (datum->type != JSON_ARRAY && datum->type != JSON_NUMBER))
        return NVML_ERROR_NOT_SUPPORTED;
    if (needed > words)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memset(mask, 0, words * sizeof *mask);
    for (size_t i = 0; i < needed; i++)
        mask[i] = json_unsigned(datum->type == JSON_ARRAY ? json_at(datum, i) : datum, 0);
    return NVML_SUCCESS;
}

static nvmlReturn_t affinity(const char *call, nvmlDevice_t handle, unsigned int words, unsigned long *mask,
                             unsigned int scope)
{
    struct answer answer;
    if (!mask || words == 0 || scope > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fake_begin(call, handle, &answer);
    if (result != NVML_SUCCESS)
        return result;
    const struct json *datum = answer.datum;
    result = put_mask(datum->type == JSON_OBJECT ? json_get(datum, scope ? "socket" : "node") : datum, words, mask);
    fake_end();
    return result;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t handle, unsigned int words, unsigned long *mask)
{
    return affinity(__func__, handle, words, mask, 0);
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t handle, unsigned int words, unsigned long *mask,
                                                 unsigned int scope)
{
    return affinity(__func__, handle, words, mask, scope);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t handle, unsigned int words, unsigned long *mask,
                                         unsigned int scope)
{
    return affinity(__func__, handle, words, mask, scope);
}

/* The state holds an object from cause to a list of {address, timestamp} or of addresses. */
static nvmlReturn_t retired(const char *call, nvmlDevice_t handle, unsigned int cause, unsigned int *count,
                            u64 *addresses, u64 *times)
{
    static const char *const causes[] = {"multiple_single_bit", "double_bit"};
    struct answer answer;
    if (!count || cause > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fake_begin(call, handle, &answer);
    if (result != NVML_SUCCESS)
        return result;
    const struct json *list = json_get(answer.datum, causes[cause]);
    result = check_room(json_length(list), count, addresses);
    const struct json *page = result == NVML_SUCCESS && list ? list->child : NULL;
    for (; page; page = page->next) {
        *addresses++ = json_unsigned(page->type == JSON_OBJECT ? json_get(page, "address") : page, 0);
        if (times)
            *times++ = json_unsigned(json_get(page, "timestamp"), 0);
    }
    fake_end();
    return result;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t handle, unsigned int cause, unsigned int *count, u64 *addresses)
{
    return retired(__func__, handle, cause, count, addresses, NULL);
}

nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t handle, unsigned int cause, unsigned int *count,
                                          u64 *addresses, u64 *times)
{
    return retired(__func__, handle, cause, count, addresses, times);
}
