/* Values by number: NVML's field values, and GPM metrics. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>

static void put_value(const struct json *node, field_t *field)
{
    if (!node->whole) {
        field->value_type = VALUE_DOUBLE;
        field->value.real = json_real(node, 0);
    } else if (node->negative) {
        field->value_type = VALUE_S64;
        field->value.signed64 = json_signed(node, 0);
    } else {
        field->value_type = VALUE_U64;
        field->value.unsigned64 = json_unsigned(node, 0);
    }
}

/* "<field>.<scope>" goes before "<field>". */
static const struct json *find_field(const struct json *datum, unsigned int field, unsigned int scope)
{
    char key[32];
    snprintf(key, sizeof key, "%u.%u", field, scope);
    const struct json *found = json_get(datum, key);
    snprintf(key, sizeof key, "%u", field);
    return found ? found : json_get(datum, key);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, field_t *fields)
{
    struct answer answer;
    nvmlReturn_t result = fields && count > 0 ? fake_begin(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    for (field_t *field = fields; field < fields + count; field++) {
        const struct json *found = find_field(answer.datum, field->field, field->scope);
        field->timestamp = (long long)now_us();
        field->latency_us = 0;
        field->result = found ? error_of(found) : NVML_ERROR_NOT_SUPPORTED;
        if (field->result == NVML_SUCCESS)
            put_value(found, field);
    }
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t handle, gpm_support_t *support)
{
    if (support && support->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return support ? answer_uint(__func__, handle, &support->supported) : NVML_ERROR_INVALID_ARGUMENT;
}

struct nvmlGpmSample_st {
    nvmlDevice_t handle; /* NULL until the sample was taken */
    u64 taken_us;
};

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    free(sample);
    return sample ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t take_sample(const char *call, nvmlDevice_t handle, nvmlGpmSample_t sample)
{
    struct answer answer;
    nvmlReturn_t result = sample ? fake_begin_optional(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *sample = (struct nvmlGpmSample_st){handle, now_us()};
    fake_end();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t handle, nvmlGpmSample_t sample)
{
    return take_sample(__func__, handle, sample);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t handle, unsigned int gpu_instance, nvmlGpmSample_t sample)
{
    (void)gpu_instance;
    return take_sample(__func__, handle, sample);
}

/* The state holds an object from metric number to value. */
nvmlReturn_t nvmlGpmMetricsGet(gpm_metrics_t *metrics)
{
    struct answer answer;
    if (metrics && metrics->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!metrics || !metrics->first || !metrics->second || !metrics->second->handle ||
        metrics->first->handle != metrics->second->handle || metrics->first->taken_us >= metrics->second->taken_us)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fake_begin(__func__, metrics->second->handle, &answer);
    if (result != NVML_SUCCESS)
        return result;
    for (unsigned int i = 0; i < metrics->count; i++) {
        gpm_metric_t *metric = &metrics->metrics[i];
        const struct json *found = find_field(answer.datum, metric->metric, 0);
        metric->result = found ? error_of(found) : NVML_ERROR_NOT_SUPPORTED;
        metric->value = json_real(found, 0);
    }
    fake_end();
    return NVML_SUCCESS;
}
