/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml: the part of NVIDIA's management library (NVML) that health.gpu uses, as its reference
 * documents it. The library is loaded at its first use, so a build needs no header of NVIDIA. Names
 * and numbers are NVML's own, and do not change: libnvidia-ml.so.1 keeps its interface.
 */
#pragma once

enum nvml_result {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_INSUFFICIENT_POWER = 8,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_IRQ_ISSUE = 11,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_UNKNOWN = 999
};

enum nvml_memory_error_type { NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1 };
enum nvml_ecc_counter_type { NVML_VOLATILE_ECC = 0 };

/* The action that the driver wants, from driver 570; 0: none. */
enum { NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230 };

/* Bits: why a GPU runs slower than it could. */
enum {
    NVML_SLOWDOWN_HW = 0x08,
    NVML_SLOWDOWN_HW_THERMAL = 0x40,
    NVML_SLOWDOWN_HW_POWER_BRAKE = 0x80
};

enum { NVML_UUID_BYTES = 96 };

struct nvml_device;

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32]; /* "00000000:3B:00.0" */
};

struct nvml_field {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    enum nvml_result result; /* of this field */
    union {
        double d;
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
    } value;
};

enum nvml_result nvmlInit_v2(void);
const char *nvmlErrorString(enum nvml_result result);
enum nvml_result nvmlDeviceGetCount_v2(unsigned *ret);
enum nvml_result nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **ret);
enum nvml_result nvmlDeviceGetPciInfo_v3(struct nvml_device *gpu, struct nvml_pci *ret);
enum nvml_result nvmlDeviceGetUUID(struct nvml_device *gpu, char *ret, unsigned size);
/* Errors since the driver was loaded, or the GPU was reset. Not supported if ECC is off. */
enum nvml_result nvmlDeviceGetTotalEccErrors(struct nvml_device *gpu,
                                             enum nvml_memory_error_type type,
                                             enum nvml_ecc_counter_type counter,
                                             unsigned long long *ret);
/* From Ampere. Pending: from the next reset on another row is used. */
enum nvml_result nvmlDeviceGetRemappedRows(struct nvml_device *gpu, unsigned *ret_corrected,
                                           unsigned *ret_uncorrected, unsigned *ret_is_pending,
                                           unsigned *ret_has_failed);
/* Before Ampere. Pending: the page is in use until the driver is loaded again. */
enum nvml_result nvmlDeviceGetRetiredPagesPendingStatus(struct nvml_device *gpu, unsigned *ret);
enum nvml_result nvmlDeviceGetFieldValues(struct nvml_device *gpu, int n,
                                          struct nvml_field *fields);
enum nvml_result nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *gpu,
                                                           unsigned long long *ret);
