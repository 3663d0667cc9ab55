#include "json.h"

#include <string.h>

const struct json *json_get(const struct json *object, const char *key)
{
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    for (const struct json *member = object->child; member; member = member->next)
        if (strcmp(member->key, key) == 0)
            return member;
    return NULL;
}

const struct json *json_at(const struct json *array, size_t index)
{
    if (!array || array->type != JSON_ARRAY)
        return NULL;
    const struct json *item = array->child;
    while (item && index-- > 0)
        item = item->next;
    return item;
}

size_t json_length(const struct json *node)
{
    size_t count = 0;
    for (const struct json *item = node ? node->child : NULL; item; item = item->next)
        count++;
    return count;
}

const char *json_text(const struct json *node)
{
    return node && node->type == JSON_STRING ? node->text : NULL;
}

double json_real(const struct json *node, double fallback)
{
    return node && node->type == JSON_NUMBER ? node->real : fallback;
}

long long json_signed(const struct json *node, long long fallback)
{
    if (!node || node->type != JSON_NUMBER)
        return fallback;
    if (!node->whole)
        return (long long)node->real;
    return node->negative ? -(long long)node->magnitude : (long long)node->magnitude;
}

unsigned long long json_unsigned(const struct json *node, unsigned long long fallback)
{
    if (node && node->type == JSON_NUMBER && node->whole && !node->negative)
        return node->magnitude;
    return (unsigned long long)json_signed(node, (long long)fallback);
}
