/* Device handles, and the way from a handle to its object in the state. */
#include "fake_nvml.h"

#include <stddef.h>

#define MAX_GPUS 64
#define MAX_MIG 32

struct nvmlDevice_st {
    char address; /* a handle is only its place in the table */
};

static struct nvmlDevice_st table[MAX_GPUS][1 + MAX_MIG];

nvmlDevice_t handle_of(unsigned int index, int mig)
{
    return index < MAX_GPUS && mig >= -1 && mig < MAX_MIG ? &table[index][1 + mig] : NULL;
}

bool handle_valid(nvmlDevice_t handle)
{
    return handle >= &table[0][0] && handle <= &table[MAX_GPUS - 1][MAX_MIG];
}

unsigned int handle_index(nvmlDevice_t handle)
{
    return (unsigned int)((handle - &table[0][0]) / (1 + MAX_MIG));
}

int handle_mig(nvmlDevice_t handle)
{
    return (int)((handle - &table[0][0]) % (1 + MAX_MIG)) - 1;
}

/* By its "index"; a device without one counts by its place in the list. */
const struct json *device_at(const struct json *root, unsigned int index)
{
    const struct json *list = json_get(root, "devices");
    unsigned int place = 0;
    for (const struct json *device = list ? list->child : NULL; device; device = device->next, place++)
        if (json_unsigned(json_get(device, "index"), place) == index)
            return device;
    return NULL;
}

/* By "lost": true, or because it cannot be opened for that reason: then an older handle is of no use either. */
bool device_lost(const struct json *device)
{
    const struct json *lost = json_get(device, "lost");
    return (lost && lost->truth) ||
           error_of(json_get(device, "nvmlDeviceGetHandleByIndex_v2")) == NVML_ERROR_GPU_IS_LOST;
}

const struct json *object_of(const struct json *root, nvmlDevice_t handle)
{
    const struct json *device = device_at(root, handle_index(handle));
    int mig = handle_mig(handle);
    return mig < 0 ? device : json_at(json_get(device, "mig_devices"), (size_t)mig);
}
