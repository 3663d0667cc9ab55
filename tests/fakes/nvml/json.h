/* A strict JSON reader (RFC 8259): one tree of nodes, freed as a whole. */
#ifndef FAKE_NVML_JSON_H
#define FAKE_NVML_JSON_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_type type;
    char *key;                    /* set on members of an object */
    char *text;                   /* JSON_STRING, UTF-8 */
    bool truth;                   /* JSON_BOOL */
    bool whole;                   /* JSON_NUMBER without fraction or exponent, within 64 bits */
    bool negative;                /* sign of a whole number; its size is in `magnitude` */
    unsigned long long magnitude; /* 2^64-1 ("not available") must survive: a double would round it */
    double real;                  /* any JSON_NUMBER */
    struct json *child;           /* first element or member */
    struct json *next;            /* the following element or member */
};

/* Parse `size` bytes; NULL when anything is wrong, trailing text included. */
struct json *json_parse(const char *text, size_t size);
void json_free(struct json *node);

/* NULL-safe look-ups, so that paths can be chained; NULL when absent. */
const struct json *json_get(const struct json *object, const char *key);
const struct json *json_at(const struct json *array, size_t index);
size_t json_length(const struct json *node);

/* NULL unless `node` is a string. */
const char *json_text(const struct json *node);
double json_real(const struct json *node, double fallback);
long long json_signed(const struct json *node, long long fallback);
unsigned long long json_unsigned(const struct json *node, unsigned long long fallback);

#pragma GCC visibility pop

#endif
