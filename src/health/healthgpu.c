/* SPDX-License-Identifier: Apache-2.0
 * See healthgpu.h.
 */
#include "health/healthgpu.h"

#include "base/fd.h"
#include "base/library.h"
#include "base/str.h"
#include "health/healthvisible.h"
#include "health/healthxid.h"
#include "health/nvml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NVML_FUNCTIONS(F)                     \
    F(nvmlInit_v2)                            \
    F(nvmlErrorString)                        \
    F(nvmlDeviceGetCount_v2)                  \
    F(nvmlDeviceGetHandleByIndex_v2)          \
    F(nvmlDeviceGetPciInfo_v3)                \
    F(nvmlDeviceGetUUID)                      \
    F(nvmlDeviceGetTotalEccErrors)            \
    F(nvmlDeviceGetRemappedRows)              \
    F(nvmlDeviceGetRetiredPagesPendingStatus) \
    F(nvmlDeviceGetFieldValues)               \
    F(nvmlDeviceGetCurrentClocksThrottleReasons)

static const char *const nvml_names[] = {NVML_FUNCTIONS(LIBRARY_NAME)};
static struct {
    NVML_FUNCTIONS(LIBRARY_POINTER)
} nvml;
static struct library library = {.need = "health.gpu needs NVML, a part of NVIDIA's driver",
                                 .package = "libnvidia-ml1",
                                 .files = {"libnvidia-ml.so.1"},
                                 .names = nvml_names,
                                 .pointers = (void **)&nvml,
                                 .n = ARRAY_LEN(nvml_names)};

enum { GPUS_MAX = 64, COMPONENT_MAX = 32, RECORD_BYTES = 16384 };

struct gpu {
    struct nvml_device *handle;
    enum nvml_result opened;
    char component[COMPONENT_MAX]; /* "gpu3" */
    char uuid[NVML_UUID_BYTES];    /* "": it and the place are not known */
    struct nvml_pci pci;
    bool is_used;    /* the job may use it, by CUDA_VISIBLE_DEVICES */
    bool is_cleared; /* the driver says that the GPU needs nothing */
};

struct gpu_check {
    const struct healthgpu_past *past;
    struct healthgpu_answer *answer;
    struct gpu gpus[GPUS_MAX];
    unsigned n;              /* those that this process may open */
    const struct gpu *other; /* the last one with a fault that the job does not use */
    /* A GPU of the job has no known place: an Xid of an unknown place may be its own. */
    bool misses_some;
};

/* --- findings --- */

/* Of a node that is healthy so far. */
static void gpu_tell(struct gpu_check *check, const char *component, const char *what)
{
    struct health_answer *answer = &check->answer->health;
    if (answer->verdict == HEALTH_GOOD)
        str_addf(answer->text, sizeof answer->text, "%s%s%s%s", answer->text[0] ? "; " : "",
                 component, component[0] ? ": " : "", what);
}

/* The first fault of a GPU that the job does not use is told. */
static void gpu_tell_other(struct gpu_check *check, const struct gpu *gpu, const char *what)
{
    char told[192];
    if (gpu == check->other)
        return;
    check->other = gpu;
    snprintf(told, sizeof told, "%s, but it is not in CUDA_VISIBLE_DEVICES", what);
    gpu_tell(check, gpu->component, told);
}

/* The first of the gravest findings is the answer. A GPU is named in each way that people use. */
static void gpu_find(struct gpu_check *check, enum health_verdict verdict, const char *component,
                     const struct gpu *gpu, const char *what)
{
    struct health_answer *answer = &check->answer->health;
    if (gpu && !gpu->is_used) {
        gpu_tell_other(check, gpu, what);
        return;
    }
    if (verdict <= answer->verdict)
        return;
    answer->verdict = verdict;
    str_fit(answer->component, sizeof answer->component, verdict == HEALTH_BAD ? component : "");
    snprintf(answer->text, sizeof answer->text, "%s%s%s", verdict == HEALTH_BAD ? "" : component,
             verdict == HEALTH_BAD ? "" : ": ", what);
    if (gpu && gpu->uuid[0])
        str_addf(answer->text, sizeof answer->text, " (PCI %s, %s)", gpu->pci.bus_id, gpu->uuid);
}

/* Returns true if the call has succeeded. Some errors say that the GPU is broken. Others say
 * nothing about it, as "not supported". */
static bool gpu_takes(struct gpu_check *check, const struct gpu *gpu, enum nvml_result result)
{
    if (result == NVML_ERROR_GPU_IS_LOST || result == NVML_ERROR_RESET_REQUIRED ||
        result == NVML_ERROR_INSUFFICIENT_POWER || result == NVML_ERROR_IRQ_ISSUE)
        gpu_find(check, HEALTH_BAD, gpu->component, gpu, nvml.nvmlErrorString(result));
    return result == NVML_SUCCESS;
}

/* --- one GPU --- */

/* After an uncorrectable error the driver knows what the GPU needs. Older drivers only count. */
static void check_recovery(struct gpu_check *check, struct gpu *gpu)
{
    static const char *const actions[] = {
        "",
        "a reset of the GPU",
        "a restart of the machine",
        "an end of its peer-to-peer traffic",
        "an end of its peer-to-peer traffic, and a reset of the GPU",
        "a recovery of the IMEX domain",
        "a reset of its PCI bus",
        "a restart of the system"};
    struct nvml_field field = {.field = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION};
    unsigned long long errors = 0;
    char what[128];
    if (gpu_takes(check, gpu, nvml.nvmlDeviceGetFieldValues(gpu->handle, 1, &field)) &&
        gpu_takes(check, gpu, field.result)) {
        gpu->is_cleared = field.value.u == 0;
        snprintf(what, sizeof what, "the driver wants %s",
                 field.value.u < ARRAY_LEN(actions) ? actions[field.value.u] : "a recovery");
        if (!gpu->is_cleared)
            gpu_find(check, HEALTH_BAD, gpu->component, gpu, what);
    } else if (gpu_takes(check, gpu,
                         nvml.nvmlDeviceGetTotalEccErrors(gpu->handle,
                                                          NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                                          NVML_VOLATILE_ECC, &errors)) &&
               errors > 0) {
        snprintf(what, sizeof what, "%llu uncorrectable memory errors since its last reset",
                 errors);
        gpu_find(check, HEALTH_BAD, gpu->component, gpu, what);
    }
}

static void check_memory(struct gpu_check *check, const struct gpu *gpu)
{
    unsigned corrected, uncorrected, is_pending = 0, has_failed = 0, is_retiring = 0;
    if (gpu_takes(check, gpu,
                  nvml.nvmlDeviceGetRemappedRows(gpu->handle, &corrected, &uncorrected, &is_pending,
                                                 &has_failed))) {
        if (has_failed)
            gpu_find(check, HEALTH_BAD, gpu->component, gpu,
                     "a broken row of its memory cannot be replaced");
        else if (is_pending)
            gpu_tell(check, gpu->component, "a row of its memory is replaced at its next reset");
    }
    if (gpu_takes(check, gpu,
                  nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu->handle, &is_retiring)) &&
        is_retiring)
        gpu_find(check, HEALTH_BAD, gpu->component, gpu,
                 "a broken page of its memory is in use until its next reset");
}

static void check_speed(struct gpu_check *check, const struct gpu *gpu)
{
    unsigned long long reasons = 0;
    if (!gpu_takes(check, gpu,
                   nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu->handle, &reasons)))
        return;
    if (reasons & NVML_SLOWDOWN_HW_THERMAL)
        gpu_tell(check, gpu->component, "it is slow, since it is hot");
    else if (reasons & NVML_SLOWDOWN_HW_POWER_BRAKE)
        gpu_tell(check, gpu->component, "it is slow, since its power is short");
    else if (reasons & NVML_SLOWDOWN_HW)
        gpu_tell(check, gpu->component, "it is slow, since its hardware limits it");
}

static void gpu_check_one(struct gpu_check *check, struct gpu *gpu)
{
    char what[128];
    if (gpu->is_used && !gpu->uuid[0])
        check->misses_some = true;
    if (!gpu_takes(check, gpu, gpu->opened)) {
        snprintf(what, sizeof what, "NVML cannot open it: %s", nvml.nvmlErrorString(gpu->opened));
        gpu_find(check, HEALTH_UNKNOWN, gpu->component, gpu, what);
        return;
    }
    check_recovery(check, gpu);
    check_memory(check, gpu);
    check_speed(check, gpu);
}

/* --- all GPUs --- */

static void gpu_open(struct gpu_check *check, unsigned index)
{
    struct gpu *gpu = &check->gpus[check->n];
    snprintf(gpu->component, sizeof gpu->component, "gpu%u", index);
    gpu->opened = nvml.nvmlDeviceGetHandleByIndex_v2(index, &gpu->handle);
    if (gpu->opened == NVML_ERROR_NO_PERMISSION)
        return; /* it belongs to another job */
    check->n++;
    if (gpu->opened == NVML_SUCCESS &&
        (nvml.nvmlDeviceGetPciInfo_v3(gpu->handle, &gpu->pci) != NVML_SUCCESS ||
         nvml.nvmlDeviceGetUUID(gpu->handle, gpu->uuid, sizeof gpu->uuid) != NVML_SUCCESS))
        gpu->uuid[0] = '\0';
}

/* Marks the GPUs that the job may use, and returns how many they are. A GPU whose UUID is not known
 * may be one that the job names by its UUID. */
static unsigned gpu_mark_used(struct gpu_check *check)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    unsigned used = 0;
    for (unsigned i = 0; i < check->n; i++) {
        struct gpu *gpu = &check->gpus[i];
        gpu->is_used = healthvisible_has(list, i, gpu->uuid);
        used += gpu->is_used;
    }
    for (unsigned i = 0; i < check->n && used < healthvisible_uuids(list); i++) {
        struct gpu *gpu = &check->gpus[i];
        used += !gpu->is_used && !gpu->uuid[0];
        gpu->is_used |= !gpu->uuid[0];
    }
    return used;
}

static void gpu_check_all(struct gpu_check *check)
{
    char what[128];
    unsigned all = 0, before = check->past->gpus;
    enum nvml_result result = nvml.nvmlDeviceGetCount_v2(&all);
    if (result != NVML_SUCCESS) {
        check->misses_some = true;
        gpu_find(check, HEALTH_UNKNOWN, "NVML", NULL, nvml.nvmlErrorString(result));
        return;
    }
    for (unsigned i = 0; i < all && i < GPUS_MAX; i++)
        gpu_open(check, i);
    unsigned used = check->answer->past.gpus = gpu_mark_used(check);
    for (unsigned i = 0; i < check->n; i++)
        gpu_check_one(check, &check->gpus[i]);
    snprintf(what, sizeof what, "%u of the %u GPUs that were there are left", used, before);
    if (used < before)
        gpu_find(check, HEALTH_BAD, "gpu", NULL, what);
    if (all == 0)
        gpu_tell(check, "", "NVML finds no GPU");
    else if (used == 0)
        gpu_tell(check, "", "no GPU of NVML is in CUDA_VISIBLE_DEVICES");
}

/* --- the kernel log --- */

static const struct gpu *gpu_at(const struct gpu_check *check, const struct xid *xid)
{
    for (unsigned i = 0; i < check->n; i++) {
        const struct nvml_pci *pci = &check->gpus[i].pci;
        if (check->gpus[i].uuid[0] && pci->domain == xid->domain && pci->bus == xid->bus &&
            pci->device == xid->device)
            return &check->gpus[i];
    }
    return NULL;
}

/* An Xid from before the first check is over if the GPU has been reset since. Newer drivers know
 * that. An Xid of a GPU that NVML does not show, or that the job does not use, is another job's. */
static bool is_against(const struct gpu_check *check, const struct xid *xid)
{
    const struct gpu *gpu = gpu_at(check, xid);
    if (!healthxid_meaning(xid->xid) || xid->number < check->past->lines)
        return false;
    return gpu ? gpu->is_used && (check->past->lines > 0 || !gpu->is_cleared) : check->misses_some;
}

static void gpu_take_xid(struct gpu_check *check, const struct xid *xid,
                         enum health_verdict verdict)
{
    const struct gpu *gpu = gpu_at(check, xid);
    const char *meaning = healthxid_meaning(xid->xid);
    char what[128], place[COMPONENT_MAX];
    snprintf(place, sizeof place, "PCI %04x:%02x:%02x", xid->domain, xid->bus, xid->device);
    snprintf(what, sizeof what, "Xid %d%s%s", xid->xid, meaning ? ": " : "",
             meaning ? meaning : "");
    if (verdict == HEALTH_BAD)
        gpu_find(check, verdict, gpu ? gpu->component : place, gpu, what);
    else
        gpu_tell(check, gpu ? gpu->component : place, what);
}

/* Reads what is there. Each read of /dev/kmsg gives one record, and fails if newer ones have
 * replaced it. The log begins where `dmesg --clear` has cleared it. */
static void check_lines(struct gpu_check *check, FILE *log)
{
    struct xid found = {0}, told = {0}, xid;
    char *line = NULL;
    size_t room = 0;
    for (;;) {
        if (getline(&line, &room, log) < 0) {
            if (!ferror(log) || errno != EPIPE)
                break;
            clearerr(log);
            continue;
        }
        if (healthxid_is_new_driver(line))
            found = told = (struct xid){0};
        if (healthxid_number(line) >= check->answer->past.lines)
            check->answer->past.lines = healthxid_number(line) + 1;
        if (!healthxid_read(line, &xid))
            continue;
        if (is_against(check, &xid) && !found.xid)
            found = xid;
        else if (check->past->lines > 0 && xid.number >= check->past->lines && gpu_at(check, &xid))
            told = xid;
    }
    free(line);
    if (found.xid)
        gpu_take_xid(check, &found, HEALTH_BAD);
    if (told.xid)
        gpu_take_xid(check, &told, HEALTH_GOOD);
}

static void check_log(struct gpu_check *check)
{
    static char bytes[RECORD_BYTES]; /* a smaller buffer would not take each record */
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *log = fd >= 0 ? fdopen(fd, "r") : NULL;
    char what[128];
    if (!log) {
        snprintf(what, sizeof what, "the kernel log cannot be read (%s), so Xids are not known",
                 strerror(errno));
        gpu_tell(check, "", what);
        if (fd >= 0)
            close(fd);
        return;
    }
    if (check->past->lines == 0)
        check->answer->past.lines = 1; /* number 0 is from before the driver */
    (void)lseek(fd, 0, SEEK_DATA);
    setvbuf(log, bytes, _IOFBF, sizeof bytes);
    check_lines(check, log);
    fclose(log);
}

/* --- both --- */

void healthgpu_ask(const struct healthgpu_past *past, struct healthgpu_answer *ret)
{
    static struct gpu_check check;
    struct health_answer *answer = &ret->health;
    struct err err;
    *ret = (struct healthgpu_answer){.past = *past};
    if (!library_load(&library, &err)) {
        str_fit(answer->text, sizeof answer->text, err.text);
        return;
    }
    enum nvml_result result = nvml.nvmlInit_v2();
    if (result == NVML_ERROR_DRIVER_NOT_LOADED) {
        snprintf(answer->text, sizeof answer->text, "NVML: %.200s", nvml.nvmlErrorString(result));
        return;
    }
    answer->verdict = HEALTH_GOOD;
    check = (struct gpu_check){.past = past, .answer = ret, .misses_some = result != NVML_SUCCESS};
    if (result == NVML_SUCCESS)
        gpu_check_all(&check);
    else if (!gpu_takes(&check, &(struct gpu){.component = "gpu", .is_used = true}, result))
        gpu_find(&check, HEALTH_UNKNOWN, "NVML", NULL, nvml.nvmlErrorString(result));
    check_log(&check);
    str_printable(answer->component);
    str_printable(answer->text);
}

void healthgpu_check(const void *arg, int answer)
{
    struct healthgpu_answer found;
    healthgpu_ask(arg, &found);
    if (!fd_write_all(answer, &found, sizeof found))
        _exit(1);
}
