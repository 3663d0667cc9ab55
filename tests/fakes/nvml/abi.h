/* The part of NVML's binary interface that the fake speaks: codes, limits and memory layouts. */
#ifndef FAKE_NVML_ABI_H
#define FAKE_NVML_ABI_H

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_ALREADY_INITIALIZED = 5,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_INSUFFICIENT_POWER = 8,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_IRQ_ISSUE = 11,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_OPERATING_SYSTEM = 17,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_IN_USE = 19,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_NO_DATA = 21,
    NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_DEPRECATED = 26,
    NVML_ERROR_NOT_READY = 27,
    NVML_ERROR_GPU_NOT_FOUND = 28,
    NVML_ERROR_INVALID_STATE = 29,
    NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;
typedef unsigned long long u64;

/* Newer structures carry their own size and version in the first word. */
#define STRUCT_VERSION(type, version) ((unsigned int)(sizeof(type) | (version) << 24))

#define NO_INSTANCE 0xFFFFFFFFu
#define NOT_AVAILABLE 0xFFFFFFFFFFFFFFFFull

enum { VALUE_DOUBLE = 0, VALUE_UINT = 1, VALUE_U64 = 3, VALUE_S64 = 4 };
enum { SAMPLES_GPU_UTILIZATION = 1 };
enum { EVENT_XID = 8 };

typedef union {
    double real;
    unsigned int uint;
    u64 unsigned64;
    long long signed64;
} value_t;

typedef struct { u64 timestamp; value_t value; } sample_t;
typedef struct { u64 reference, violation; } violation_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned int version; u64 total, reserved, free, used; } memory_v2_t;
typedef struct { u64 total, free, used; } bar1_t;
typedef struct { unsigned int version, sensor; int celsius; } temperature_t;
typedef struct { unsigned int version; int celsius; } margin_t;
typedef struct { unsigned int version, supported; } gpm_support_t;

/* The first version of the process list has no instance ids: half the size of the later ones. */
typedef struct { unsigned int pid; u64 memory; } process_v1_t;
typedef struct { unsigned int pid; u64 memory; unsigned int gpu_instance, compute_instance; } process_v2_t;

typedef struct {
    unsigned int pid;
    u64 timestamp;
    unsigned int sm, memory, encoder, decoder;
} process_use_t;

typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32]; /* reserved words before version 3 */
} pci_t;

typedef struct {
    unsigned int version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char bus_id[32];
} pci_ext_t;

typedef struct {
    nvmlDevice_t device;
    u64 type, data;
    unsigned int gpu_instance, compute_instance;
} event_t;

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency_us;
    unsigned int value_type;
    nvmlReturn_t result;
    value_t value;
} field_t;

typedef struct {
    unsigned int metric;
    nvmlReturn_t result;
    double value;
    const char *short_name, *long_name, *unit;
} gpm_metric_t;

typedef struct {
    unsigned int version, count;
    nvmlGpmSample_t first, second;
    gpm_metric_t metrics[];
} gpm_metrics_t;

typedef struct {
    unsigned int multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    unsigned int gpu_slices, compute_slices;
    u64 memory_mib;
} attributes_t;

_Static_assert(sizeof(memory_v2_t) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(process_v1_t) == 16 && sizeof(process_v2_t) == 24, "nvmlProcessInfo");
_Static_assert(sizeof(process_use_t) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(pci_t) == 68 && sizeof(pci_ext_t) == 64, "nvmlPciInfo");
_Static_assert(sizeof(event_t) == 32 && sizeof(field_t) == 40, "nvmlEventData_t, nvmlFieldValue_t");
_Static_assert(sizeof(gpm_metric_t) == 40 && sizeof(attributes_t) == 40, "nvmlGpmMetric_t, attributes");

#endif
