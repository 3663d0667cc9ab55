/* Starting, stopping, error texts and calls on the whole system. */
#include "fake_nvml.h"

#include <stdio.h>

nvmlReturn_t nvmlInit_v2(void)
{
    return fake_open(__func__);
}

nvmlReturn_t nvmlInit(void)
{
    return fake_open(__func__);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    return fake_open(__func__);
}

nvmlReturn_t nvmlShutdown(void)
{
    return fake_close();
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    return error_text(code);
}

static nvmlReturn_t system_text(const char *call, const char *member, char *text, unsigned int size)
{
    struct answer answer;
    nvmlReturn_t result = text ? fake_begin_system(call, member, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    result = put_text(answer.datum, text, size);
    fake_end();
    return result;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int size)
{
    return system_text(__func__, "driver_version", version, size);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int size)
{
    return system_text(__func__, "nvml_version", version, size);
}

static nvmlReturn_t cuda_version(const char *call, int *version)
{
    struct answer answer;
    nvmlReturn_t result =
        version ? fake_begin_system(call, "cuda_driver_version", &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *version = (int)json_signed(answer.datum, 0);
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version(__func__, version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version(__func__, version);
}

/* The state holds an object from pid (as text) to name. */
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int size)
{
    char key[16];
    struct answer answer;
    nvmlReturn_t result = name ? fake_begin_system(__func__, NULL, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "%u", pid);
    const struct json *found = json_get(answer.datum, key);
    result = found ? put_text(found, name, size) : NVML_ERROR_NOT_FOUND;
    fake_end();
    return result;
}

/* S-class chassis units: no machine that runs containers has one. */
nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    struct answer answer;
    nvmlReturn_t result = count ? fake_begin_system(__func__, "devices", &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *count = 0;
    fake_end();
    return NVML_SUCCESS;
}
