/* The kinds of answer that many calls share. */
#include "fake_nvml.h"

#include <string.h>

static nvmlReturn_t put_uint(const struct json *node, unsigned int *value)
{
    nvmlReturn_t result = node ? error_of(node) : NVML_ERROR_NOT_SUPPORTED;
    if (result != NVML_SUCCESS)
        return result;
    if (node->type != JSON_NUMBER)
        return node->type == JSON_NULL ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNKNOWN;
    *value = (unsigned int)json_signed(node, 0);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_uint(const char *call, nvmlDevice_t handle, unsigned int *value)
{
    struct answer answer;
    nvmlReturn_t result = value ? fake_begin(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    result = put_uint(answer.datum, value);
    fake_end();
    return result;
}

nvmlReturn_t answer_u64(const char *call, nvmlDevice_t handle, u64 *value)
{
    struct answer answer;
    nvmlReturn_t result = value ? fake_begin(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    *value = json_unsigned(answer.datum, 0);
    result = answer.datum->type == JSON_NUMBER ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
    fake_end();
    return result;
}

nvmlReturn_t answer_pair(const char *call, nvmlDevice_t handle, const char *const keys[2], unsigned int *first,
                         unsigned int *second)
{
    struct answer answer;
    nvmlReturn_t result = first && second ? fake_begin(call, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    result = put_uint(json_get(answer.datum, keys[0]), first);
    if (result == NVML_SUCCESS)
        result = put_uint(json_get(answer.datum, keys[1]), second);
    fake_end();
    return result;
}

nvmlReturn_t answer_choice(const char *call, nvmlDevice_t handle, const char *const *names, unsigned int count,
                           unsigned int choice, unsigned int *value)
{
    struct answer answer;
    if (!value || choice >= count)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fake_begin(call, handle, &answer);
    if (result != NVML_SUCCESS)
        return result;
    const struct json *node = answer.datum;
    if (node->type == JSON_OBJECT)
        node = names ? json_get(node, names[choice]) : NULL;
    else if (node->type == JSON_ARRAY)
        node = json_at(node, choice);
    result = put_uint(node, value);
    fake_end();
    return result;
}

nvmlReturn_t put_text(const struct json *datum, char *text, unsigned int size)
{
    const char *from = json_text(datum);
    if (!from)
        return NVML_ERROR_UNKNOWN;
    if (strlen(from) + 1 > size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(text, from, strlen(from) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_text(const char *call, nvmlDevice_t handle, const char *member, char *text, unsigned int size)
{
    struct answer answer;
    nvmlReturn_t result = text ? fake_begin_member(call, handle, member, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    result = put_text(answer.datum, text, size);
    fake_end();
    return result;
}
