/* What the files of the fake share: the state, and how a call finds its answer in it. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include "abi.h"
#include "json.h"

#pragma GCC visibility push(hidden)

/* The answer to one call; points into the locked state, so it lives until fake_end(). */
struct answer {
    const struct json *root;   /* the whole state */
    const struct json *device; /* the GPU or MIG device, NULL on system calls */
    const struct json *datum;  /* what `calls` holds for this call; never NULL after fake_begin() */
};

/*
 * Starts the answer of a call on a device: waits as long as the state asks, then looks the call up in `calls`.
 * Any result but NVML_SUCCESS is what the caller gets; on NVML_SUCCESS the state stays locked until fake_end().
 */
nvmlReturn_t fake_begin(const char *call, nvmlDevice_t handle, struct answer *answer);

/* The same; when `calls` says nothing, the answer is this member of the device ("uuid"), or of the root. */
nvmlReturn_t fake_begin_member(const char *call, nvmlDevice_t handle, const char *member, struct answer *answer);
nvmlReturn_t fake_begin_system(const char *call, const char *member, struct answer *answer);

/* The same, but a call without a datum is no error: `datum` is NULL then. */
nvmlReturn_t fake_begin_optional(const char *call, nvmlDevice_t handle, struct answer *answer);
void fake_end(void);

/* Init and shutdown count: the library answers while the count is above 0. */
nvmlReturn_t fake_open(const char *call);
nvmlReturn_t fake_close(void);

/* A name like "NVML_ERROR_TIMEOUT" to its code; NVML_SUCCESS for anything else. */
nvmlReturn_t error_of(const struct json *node);
const char *error_text(nvmlReturn_t code);
/* Another name of `call` with the same answer, step 0, 1, ...; NULL after the last. */
const char *alias_of(const char *call, int step);

/* state.c; call with the state locked. */
void state_lock(void);
void state_unlock(void);
const struct json *state_root(void);

/* handles.c: a handle is an address in a fixed table, so it stays good when the state is replaced. */
nvmlDevice_t handle_of(unsigned int index, int mig);
unsigned int handle_index(nvmlDevice_t handle);
int handle_mig(nvmlDevice_t handle); /* position in mig_devices, -1 for a whole GPU */
bool handle_valid(nvmlDevice_t handle);
const struct json *device_at(const struct json *root, unsigned int index);
bool device_lost(const struct json *device);
const struct json *object_of(const struct json *root, nvmlDevice_t handle);

/* answers.c: one kind of answer each; all check their pointers. */
nvmlReturn_t answer_uint(const char *call, nvmlDevice_t handle, unsigned int *value);
nvmlReturn_t answer_u64(const char *call, nvmlDevice_t handle, u64 *value);
nvmlReturn_t answer_pair(const char *call, nvmlDevice_t handle, const char *const keys[2], unsigned int *first,
                         unsigned int *second);
/* Member names[choice] of an object, element `choice` of an array, or the plain number. */
nvmlReturn_t answer_choice(const char *call, nvmlDevice_t handle, const char *const *names, unsigned int count,
                           unsigned int choice, unsigned int *value);
nvmlReturn_t answer_text(const char *call, nvmlDevice_t handle, const char *member, char *text, unsigned int size);
nvmlReturn_t put_text(const struct json *datum, char *text, unsigned int size);

/* samples.c: live values that follow the wall clock. */
u64 now_us(void);
unsigned int generated_value(const struct json *generator, u64 end_us, u64 period_us);

#pragma GCC visibility pop

#endif
