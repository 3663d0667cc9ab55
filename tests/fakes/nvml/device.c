/* Finding devices, and what identifies them. */
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>

static unsigned int device_count(const struct json *root)
{
    return (unsigned int)json_unsigned(json_get(root, "device_count"), json_length(json_get(root, "devices")));
}

static nvmlReturn_t count_devices(const char *call, unsigned int *count)
{
    struct answer answer;
    nvmlReturn_t result = count ? fake_begin_system(call, "devices", &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_ERROR_NOT_SUPPORTED) {
        *count = 0; /* a state without devices */
        return NVML_SUCCESS;
    }
    if (result != NVML_SUCCESS)
        return result;
    *count = device_count(answer.root);
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    return count_devices(__func__, count);
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return count_devices(__func__, count);
}

/* The result of opening a device; a lost one cannot be opened either. */
static nvmlReturn_t open_result(const struct json *device)
{
    nvmlReturn_t result = error_of(json_get(device, "nvmlDeviceGetHandleByIndex_v2"));
    if (result == NVML_SUCCESS && (!device || device_lost(device)))
        result = NVML_ERROR_GPU_IS_LOST;
    return result;
}

static nvmlReturn_t by_index(const char *call, unsigned int index, nvmlDevice_t *handle)
{
    struct answer answer;
    nvmlReturn_t result = handle ? fake_begin_system(call, "devices", &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_ERROR_NOT_SUPPORTED)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *handle = handle_of(index, -1);
    if (index >= device_count(answer.root) || !*handle)
        result = NVML_ERROR_INVALID_ARGUMENT;
    else
        result = open_result(device_at(answer.root, index));
    fake_end();
    return result;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle)
{
    return by_index(__func__, index, handle);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *handle)
{
    return by_index(__func__, index, handle);
}

/* "0000:18:00.0" and "00000000:18:00" name the same device. */
static bool same_bus(const struct json *device, const char *wanted)
{
    unsigned int a[3], b[3];
    const char *own = json_text(json_get(json_get(json_get(device, "calls"), "nvmlDeviceGetPciInfo_v3"), "busId"));
    return own && sscanf(own, "%x:%x:%x", &a[0], &a[1], &a[2]) == 3 &&
           sscanf(wanted, "%x:%x:%x", &b[0], &b[1], &b[2]) == 3 && memcmp(a, b, sizeof a) == 0;
}

static bool same_uuid(const struct json *device, const char *wanted)
{
    const char *own = json_text(json_get(device, "uuid"));
    return own && strcmp(own, wanted) == 0;
}

static bool same_serial(const struct json *device, const char *wanted)
{
    const char *own = json_text(json_get(json_get(device, "calls"), "nvmlDeviceGetSerial"));
    return own && strcmp(own, wanted) == 0;
}

/* The handle of the first whole GPU or MIG device that matches. */
static nvmlDevice_t search(const struct json *root, const char *wanted, bool (*same)(const struct json *, const char *))
{
    unsigned int count = device_count(root);
    for (unsigned int index = 0; index < count; index++) {
        const struct json *device = device_at(root, index);
        if (same(device, wanted))
            return handle_of(index, -1);
        const struct json *list = json_get(device, "mig_devices");
        int place = 0;
        for (const struct json *mig = list ? list->child : NULL; mig; mig = mig->next, place++)
            if (same(mig, wanted))
                return handle_of(index, place);
    }
    return NULL;
}

static nvmlReturn_t by_text(const char *call, const char *wanted, nvmlDevice_t *handle,
                            bool (*same)(const struct json *, const char *))
{
    struct answer answer;
    if (!wanted || !handle)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fake_begin_system(call, "devices", &answer);
    if (result == NVML_ERROR_NOT_SUPPORTED)
        return NVML_ERROR_NOT_FOUND;
    if (result != NVML_SUCCESS)
        return result;
    *handle = search(answer.root, wanted, same);
    result = *handle ? open_result(device_at(answer.root, handle_index(*handle))) : NVML_ERROR_NOT_FOUND;
    fake_end();
    return result;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle)
{
    return by_text(__func__, uuid, handle, same_uuid);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *handle)
{
    return by_text(__func__, serial, handle, same_serial);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *handle)
{
    return by_text(__func__, bus_id, handle, same_bus);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *handle)
{
    return by_text(__func__, bus_id, handle, same_bus);
}

/* The index of a MIG device is its place in its GPU. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *index)
{
    struct answer answer;
    nvmlReturn_t result = index ? fake_begin_optional(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *index = handle_mig(handle) < 0 ? handle_index(handle) : (unsigned int)handle_mig(handle);
    fake_end();
    return NVML_SUCCESS;
}

static nvmlReturn_t member_uint(const char *call, nvmlDevice_t handle, const char *member, unsigned int *value)
{
    struct answer answer;
    nvmlReturn_t result = value ? fake_begin_member(call, handle, member, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *value = (unsigned int)json_unsigned(answer.datum, 0);
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int *minor)
{
    return member_uint(__func__, handle, "minor", minor);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id)
{
    return member_uint(__func__, handle, "gpu_instance_id", id);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned int *id)
{
    return member_uint(__func__, handle, "compute_instance_id", id);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int size)
{
    return answer_text(__func__, handle, "uuid", uuid, size);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int size)
{
    nvmlReturn_t result = answer_text(__func__, handle, "name", name, size);
    if (result == NVML_ERROR_NOT_SUPPORTED && handle_mig(handle) >= 0)
        result = answer_text(__func__, handle_of(handle_index(handle), -1), "name", name, size);
    return result;
}
