/* From the name of a call to its answer: initialised? hanging? an error? the datum? */
#include "fake_nvml.h"

#include <string.h>
#include <time.h>

#define POLL_NS 20000000L /* how soon a hanging call sees that the state no longer asks for it */

static unsigned int opened; /* guarded by the lock of the state */

static double monotonic_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The member for this call, for another name of it, or for any call ("*"). */
static const struct json *named(const struct json *object, const char *call)
{
    const struct json *found = json_get(object, call);
    for (int step = 0; !found && alias_of(call, step); step++)
        found = json_get(object, alias_of(call, step));
    return found ? found : json_get(object, "*");
}

static const struct json *datum_of(const struct json *root, const struct json *device, const char *call)
{
    const struct json *everywhere = json_get(json_get(root, "calls"), "*");
    if (error_of(everywhere) != NVML_SUCCESS)
        return everywhere;
    return named(json_get(device ? device : root, "calls"), call);
}

static double hang_seconds(const struct json *root, nvmlDevice_t handle, const char *call)
{
    const struct json *device = handle ? object_of(root, handle) : NULL;
    double seconds = json_real(named(json_get(root, "hang"), call), 0);
    double here = json_real(named(json_get(device, "hang"), call), 0);
    double inside = json_real(json_get(datum_of(root, device, call), "hang_s"), 0);
    seconds = here > seconds ? here : seconds;
    return inside > seconds ? inside : seconds;
}

/*
 * Sleeps without the lock, so that other threads go on. A signal does not end it: a driver that waits for
 * its hardware is not interrupted either. A new state that no longer asks for the hang does end it.
 * Returns the root, locked.
 */
static const struct json *wait_and_lock(const char *call, nvmlDevice_t handle)
{
    double start = monotonic_s();
    for (;;) {
        state_lock();
        const struct json *root = state_root();
        if (monotonic_s() - start >= hang_seconds(root, handle, call))
            return root;
        state_unlock();
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
    }
}

static nvmlReturn_t device_result(const struct json *root, nvmlDevice_t handle, struct answer *answer)
{
    const struct json *gpu = device_at(root, handle_index(handle));
    if (!gpu || device_lost(gpu))
        return NVML_ERROR_GPU_IS_LOST;
    answer->device = object_of(root, handle);
    return answer->device ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND; /* that MIG device was destroyed */
}

static nvmlReturn_t begin(const char *call, nvmlDevice_t handle, struct answer *answer)
{
    const struct json *root = wait_and_lock(call, handle);
    nvmlReturn_t result = opened ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    *answer = (struct answer){.root = root};
    if (result == NVML_SUCCESS && handle)
        result = device_result(root, handle, answer);
    if (result == NVML_SUCCESS) {
        const struct json *datum = datum_of(root, answer->device, call);
        result = error_of(datum);
        if (json_get(datum, "hang_s"))
            datum = json_get(datum, "then");
        if (result == NVML_SUCCESS)
            result = error_of(datum);
        answer->datum = datum && datum->type != JSON_NULL ? datum : NULL;
    }
    if (result != NVML_SUCCESS)
        fake_end();
    return result;
}

nvmlReturn_t fake_begin_optional(const char *call, nvmlDevice_t handle, struct answer *answer)
{
    return handle_valid(handle) ? begin(call, handle, answer) : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t or_member(nvmlReturn_t result, const char *member, struct answer *answer)
{
    if (result != NVML_SUCCESS)
        return result;
    if (!answer->datum && member)
        answer->datum = json_get(answer->device ? answer->device : answer->root, member);
    result = answer->datum ? error_of(answer->datum) : NVML_ERROR_NOT_SUPPORTED;
    if (result != NVML_SUCCESS)
        fake_end();
    return result;
}

nvmlReturn_t fake_begin(const char *call, nvmlDevice_t handle, struct answer *answer)
{
    return or_member(fake_begin_optional(call, handle, answer), NULL, answer);
}

nvmlReturn_t fake_begin_member(const char *call, nvmlDevice_t handle, const char *member, struct answer *answer)
{
    return or_member(fake_begin_optional(call, handle, answer), member, answer);
}

nvmlReturn_t fake_begin_system(const char *call, const char *member, struct answer *answer)
{
    return or_member(begin(call, NULL, answer), member, answer);
}

void fake_end(void)
{
    state_unlock();
}

nvmlReturn_t fake_open(const char *call)
{
    const struct json *root = wait_and_lock(call, NULL);
    const char *library = json_text(json_get(root, "library"));
    nvmlReturn_t result = error_of(named(json_get(root, "calls"), call));
    if (!root)
        result = NVML_ERROR_DRIVER_NOT_LOADED;
    else if (library && strcmp(library, "missing") == 0)
        result = NVML_ERROR_LIBRARY_NOT_FOUND;
    else if (result == NVML_SUCCESS)
        result = error_of(json_get(root, "nvmlInit_v2"));
    if (result == NVML_SUCCESS)
        opened++;
    state_unlock();
    return result;
}

nvmlReturn_t fake_close(void)
{
    wait_and_lock("nvmlShutdown", NULL);
    nvmlReturn_t result = opened ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (opened)
        opened--;
    state_unlock();
    return result;
}
