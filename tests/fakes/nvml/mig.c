/* MIG devices: parts of a GPU with handles of their own. */
#include "fake_nvml.h"

#define MOST_PARTS 7 /* of any GPU so far */

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned int *is_mig)
{
    struct answer answer;
    nvmlReturn_t result = is_mig ? fake_begin_optional(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *is_mig = handle_mig(handle) >= 0;
    fake_end();
    return NVML_SUCCESS;
}

/* Zero is a success: the GPU is whole. */
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int *count)
{
    struct answer answer;
    nvmlReturn_t result = count ? fake_begin_optional(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    size_t here = json_length(json_get(answer.device, "mig_devices"));
    u64 usual = here > MOST_PARTS ? here : here ? MOST_PARTS : 0;
    *count = (unsigned int)json_unsigned(answer.datum, usual);
    fake_end();
    return NVML_SUCCESS;
}

/* Places may be empty: callers go over all up to the maximum and skip NOT_FOUND. */
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index, nvmlDevice_t *part)
{
    struct answer answer;
    nvmlReturn_t result = part ? fake_begin_optional(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    const struct json *found = json_at(json_get(answer.device, "mig_devices"), index);
    *part = found && found->type == JSON_OBJECT ? handle_of(handle_index(handle), (int)index) : NULL;
    fake_end();
    return *part ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t part, nvmlDevice_t *handle)
{
    struct answer answer;
    if (!handle || !handle_valid(part) || handle_mig(part) < 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fake_begin_optional(__func__, part, &answer);
    if (result != NVML_SUCCESS)
        return result;
    *handle = handle_of(handle_index(part), -1);
    fake_end();
    return NVML_SUCCESS;
}

static nvmlReturn_t attributes(const char *call, nvmlDevice_t handle, attributes_t *out)
{
    struct answer answer;
    nvmlReturn_t result = out ? fake_begin(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    const struct json *datum = answer.datum;
#define PART(key) ((unsigned int)json_unsigned(json_get(datum, key), 0))
    *out = (attributes_t){PART("multiprocessorCount"),
                          PART("sharedCopyEngineCount"),
                          PART("sharedDecoderCount"),
                          PART("sharedEncoderCount"),
                          PART("sharedJpegCount"),
                          PART("sharedOfaCount"),
                          PART("gpuInstanceSliceCount"),
                          PART("computeInstanceSliceCount"),
                          json_unsigned(json_get(datum, "memorySizeMB"), 0)};
#undef PART
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, attributes_t *out)
{
    return attributes(__func__, handle, out);
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t handle, attributes_t *out)
{
    return attributes(__func__, handle, out);
}
