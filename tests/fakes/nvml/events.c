/* Event sets: errors (XID) that the state lists, each delivered once to each set. */
#include "fake_nvml.h"

#include <stdlib.h>
#include <time.h>

#define MAX_GPUS 64
#define POLL_NS 10000000L

struct nvmlEventSet_st {
    u64 types[MAX_GPUS]; /* registered, per GPU */
    u64 seen;            /* the highest "seq" delivered or skipped */
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct answer answer;
    nvmlReturn_t result = set ? fake_begin_system(__func__, "devices", &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        fake_end();
        *set = calloc(1, sizeof **set);
        result = *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
    }
    return result;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    free(set);
    return set ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static u64 seq_of(const struct json *event)
{
    return json_unsigned(json_get(event, "seq"), 1);
}

/* A real set hears only what happens later; a state that wants that says "events_replay": false. */
static void skip_old(nvmlEventSet_t set, const struct json *root)
{
    const struct json *replay = json_get(root, "events_replay"), *list = json_get(root, "events");
    if (!replay || replay->type != JSON_BOOL || replay->truth)
        return;
    for (const struct json *event = list ? list->child : NULL; event; event = event->next)
        if (seq_of(event) > set->seen)
            set->seen = seq_of(event);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, u64 types, nvmlEventSet_t set)
{
    struct answer answer;
    nvmlReturn_t result = set ? fake_begin_optional(__func__, handle, &answer) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    set->types[handle_index(handle)] |= types;
    skip_old(set, answer.root);
    fake_end();
    return NVML_SUCCESS;
}

static bool wanted(nvmlEventSet_t set, const struct json *event)
{
    u64 device = json_unsigned(json_get(event, "device"), 0);
    return device < MAX_GPUS && seq_of(event) > set->seen &&
           (set->types[device] & json_unsigned(json_get(event, "type"), EVENT_XID));
}

static const struct json *next_event(nvmlEventSet_t set, const struct json *root)
{
    const struct json *list = json_get(root, "events"), *best = NULL;
    for (const struct json *event = list ? list->child : NULL; event; event = event->next)
        if (wanted(set, event) && (!best || seq_of(event) < seq_of(best)))
            best = event;
    return best;
}

static bool watches_lost(nvmlEventSet_t set, const struct json *root)
{
    for (unsigned int index = 0; index < MAX_GPUS; index++)
        if (set->types[index] && device_lost(device_at(root, index)))
            return true;
    return false;
}

/* One look; TIMEOUT when there is nothing yet. */
static nvmlReturn_t poll_set(const char *call, nvmlEventSet_t set, event_t *data)
{
    struct answer answer;
    nvmlReturn_t result = fake_begin_system(call, "devices", &answer);
    if (result != NVML_SUCCESS)
        return result;
    const struct json *event = next_event(set, answer.root);
    if (event) {
        set->seen = seq_of(event);
        *data = (event_t){
            .device = handle_of((unsigned int)json_unsigned(json_get(event, "device"), 0), -1),
            .type = json_unsigned(json_get(event, "type"), EVENT_XID),
            .data = json_unsigned(json_get(event, "xid"), 0),
            .gpu_instance = (unsigned int)json_unsigned(json_get(event, "gpu_instance_id"), NO_INSTANCE),
            .compute_instance = (unsigned int)json_unsigned(json_get(event, "compute_instance_id"), NO_INSTANCE)};
    } else {
        result = watches_lost(set, answer.root) ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
    }
    fake_end();
    return result;
}

static nvmlReturn_t wait_set(const char *call, nvmlEventSet_t set, event_t *data, unsigned int timeout_ms)
{
    struct timespec start, now;
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        nvmlReturn_t result = poll_set(call, set, data);
        clock_gettime(CLOCK_MONOTONIC, &now);
        double waited_ms = (double)(now.tv_sec - start.tv_sec) * 1e3 + (double)(now.tv_nsec - start.tv_nsec) / 1e6;
        if (result != NVML_ERROR_TIMEOUT || waited_ms >= timeout_ms)
            return result;
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
    }
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, event_t *data, unsigned int timeout_ms)
{
    return wait_set(__func__, set, data, timeout_ms);
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, event_t *data, unsigned int timeout_ms)
{
    return wait_set(__func__, set, data, timeout_ms);
}
