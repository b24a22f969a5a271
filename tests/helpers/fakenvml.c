/* SPDX-License-Identifier: Apache-2.0
 *
 * fakenvml: a library in the place of NVIDIA's NVML. It answers as the reference of NVML documents
 * it, for GPUs that the file FAKE_NVML describes. Each of its lines is "word GPU value"; the GPU -1
 * stands for all, and for what belongs to none. The file is read at each call, so that a test can
 * break a GPU while the job runs. Without a file there is one healthy GPU of a new driver.
 *
 *   gpus -1 8      so many GPUs              init -1 9      nvmlInit answers this
 *   open 3 15      so does the handle        lost 3 1       all calls say that the GPU is lost
 *   action 3 1     the recovery action       old -1 1       a driver that knows no such action
 *   ecc 3 2        uncorrected errors        noecc 3 1      ECC is off
 *   failed 3 1     row remapping failed      pending 3 1    it is pending
 *   volta 3 1      pages instead of rows     retiring 3 1   a page is pending
 *   slow 3 64      reasons of a slowdown     hang -1 1      calls do not return
 *   noplace 3 1    its place is not known
 */
#include "health/nvml.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))

enum { GPUS_MAX = 16 };

struct nvml_device {
    int index;
};

static struct nvml_device devices[GPUS_MAX];
static bool is_ready;

static long long told(const char *wanted, int gpu, long long fallback)
{
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "re") : NULL;
    char word[32];
    int of;
    long long value, found = fallback;
    while (file && fscanf(file, "%31s %d %lld", word, &of, &value) == 3)
        if (strcmp(word, wanted) == 0 && (of == gpu || of == -1))
            found = value;
    if (file)
        fclose(file);
    return found;
}

static void may_hang(void)
{
    while (told("hang", -1, 0))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

API enum nvml_result nvmlInit_v2(void)
{
    may_hang();
    enum nvml_result result = (enum nvml_result)told("init", -1, NVML_SUCCESS);
    is_ready = result == NVML_SUCCESS;
    return result;
}

API const char *nvmlErrorString(enum nvml_result result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_ERROR_INSUFFICIENT_POWER:
        return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_IRQ_ISSUE:
        return "Interrupt Request Issue";
    case NVML_ERROR_GPU_IS_LOST:
        return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
        return "GPU requires reset";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "Driver/library version mismatch";
    case NVML_ERROR_UNKNOWN:
        break;
    }
    return "Unknown Error";
}

API enum nvml_result nvmlDeviceGetCount_v2(unsigned *ret)
{
    if (!is_ready)
        return NVML_ERROR_UNINITIALIZED;
    *ret = (unsigned)told("gpus", -1, 1);
    return NVML_SUCCESS;
}

API enum nvml_result nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **ret)
{
    if (!is_ready)
        return NVML_ERROR_UNINITIALIZED;
    if (!ret || index >= GPUS_MAX || index >= (unsigned)told("gpus", -1, 1))
        return NVML_ERROR_INVALID_ARGUMENT;
    devices[index].index = (int)index;
    *ret = &devices[index];
    return (enum nvml_result)told("open", (int)index, NVML_SUCCESS);
}

/* The first answer of every call about a GPU. */
static enum nvml_result gpu_result(const struct nvml_device *gpu, const void *ret)
{
    may_hang();
    if (!is_ready)
        return NVML_ERROR_UNINITIALIZED;
    if (!gpu || !ret)
        return NVML_ERROR_INVALID_ARGUMENT;
    return told("lost", gpu->index, 0) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

API enum nvml_result nvmlDeviceGetPciInfo_v3(struct nvml_device *gpu, struct nvml_pci *ret)
{
    if (!gpu || !ret)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (told("noplace", gpu->index, 0))
        return NVML_ERROR_UNKNOWN;
    *ret = (struct nvml_pci){.bus = 0x30 + (unsigned)gpu->index};
    snprintf(ret->bus_id, sizeof ret->bus_id, "%08X:%02X:%02X.0", ret->domain, ret->bus,
             ret->device);
    snprintf(ret->bus_id_legacy, sizeof ret->bus_id_legacy, "%04X:%02X:%02X.0", ret->domain,
             ret->bus, ret->device);
    return NVML_SUCCESS;
}

API enum nvml_result nvmlDeviceGetUUID(struct nvml_device *gpu, char *ret, unsigned size)
{
    if (!gpu || !ret)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(ret, size, "GPU-00000000-0000-0000-0000-%012d", gpu->index);
    return NVML_SUCCESS;
}

API enum nvml_result nvmlDeviceGetTotalEccErrors(struct nvml_device *gpu,
                                                 enum nvml_memory_error_type type,
                                                 enum nvml_ecc_counter_type counter,
                                                 unsigned long long *ret)
{
    enum nvml_result result = gpu_result(gpu, ret);
    if (result != NVML_SUCCESS)
        return result;
    if (told("noecc", gpu->index, 0))
        return NVML_ERROR_NOT_SUPPORTED;
    bool is_wanted = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && counter == NVML_VOLATILE_ECC;
    *ret = is_wanted ? (unsigned long long)told("ecc", gpu->index, 0) : 1000000;
    return NVML_SUCCESS;
}

API enum nvml_result nvmlDeviceGetRemappedRows(struct nvml_device *gpu, unsigned *ret_corrected,
                                               unsigned *ret_uncorrected, unsigned *ret_is_pending,
                                               unsigned *ret_has_failed)
{
    enum nvml_result result = gpu_result(gpu, ret_has_failed);
    if (result != NVML_SUCCESS)
        return result;
    if (told("volta", gpu->index, 0))
        return NVML_ERROR_NOT_SUPPORTED;
    *ret_corrected = 1;
    *ret_uncorrected = 0;
    *ret_is_pending = (unsigned)told("pending", gpu->index, 0);
    *ret_has_failed = (unsigned)told("failed", gpu->index, 0);
    return NVML_SUCCESS;
}

API enum nvml_result nvmlDeviceGetRetiredPagesPendingStatus(struct nvml_device *gpu, unsigned *ret)
{
    enum nvml_result result = gpu_result(gpu, ret);
    if (result != NVML_SUCCESS)
        return result;
    if (!told("volta", gpu->index, 0))
        return NVML_ERROR_NOT_SUPPORTED;
    *ret = (unsigned)told("retiring", gpu->index, 0);
    return NVML_SUCCESS;
}

API enum nvml_result nvmlDeviceGetFieldValues(struct nvml_device *gpu, int n,
                                              struct nvml_field *fields)
{
    enum nvml_result result = gpu_result(gpu, fields);
    for (int i = 0; i < n && result == NVML_SUCCESS; i++) {
        bool is_known =
            fields[i].field == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION && !told("old", gpu->index, 0);
        fields[i].result = is_known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        fields[i].type = 1; /* unsigned int */
        fields[i].value.u = (unsigned)told("action", gpu->index, 0);
    }
    return result;
}

API enum nvml_result nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *gpu,
                                                               unsigned long long *ret)
{
    enum nvml_result result = gpu_result(gpu, ret);
    if (result == NVML_SUCCESS)
        *ret = (unsigned long long)told("slow", gpu->index, 0) | 1; /* 1: it is idle */
    return result;
}
