// SPDX-License-Identifier: Apache-2.0
// Event sets. `event0 = 3 8 79` is the first event that ever happens: on GPU 3, of type 8 (XID), with data 79; the next is
// event1. A set is told those that happen after it was made, for the GPUs and types that it is registered for.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "call.h"

struct nvmlEventSet {
    unsigned next;
    unsigned long long types[GPUS_MAX];
};

static bool event(unsigned number, unsigned *gpu, unsigned long long *type, unsigned long long *data)
{
    char key[STATE_KEY_MAX], value[STATE_VALUE_MAX];
    snprintf(key, sizeof key, "event%u", number);
    return state_text("", key, value) && sscanf(value, "%u %lli %lli", gpu, (long long *)type, (long long *)data) == 3 &&
           *gpu < GPUS_MAX;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t result = begin(__func__);
    if (result != NVML_SUCCESS)
        return result;
    struct nvmlEventSet *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NVML_ERROR_MEMORY;
    unsigned gpu;
    unsigned long long type, data;
    while (event(made->next, &gpu, &type, &data))
        made->next++;
    *set = made;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    nvmlReturn_t result = begin(__func__);
    if (result == NVML_SUCCESS)
        free(set);
    return result;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types, nvmlEventSet_t set)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    unsigned long long supported = 0;
    if (result == NVML_SUCCESS)
        result = give_unsigned_long_long(device.prefix, "event_types", &supported);
    if (result == NVML_SUCCESS && (types & ~supported) != 0)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        set->types[gpu_of(handle)] |= types;
    return result;
}

// Readable once the state has changed: a new file takes the old one's place.
static int watch_state(void)
{
    char directory[STATE_VALUE_MAX] = "";
    const char *path = getenv("LAB_NVML");
    snprintf(directory, sizeof directory, "%s", path != NULL ? path : "");
    char *slash = strrchr(directory, '/');
    if (slash != NULL)
        slash[1] = '\0';
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch < 0 || inotify_add_watch(watch, slash != NULL ? directory : ".", IN_MOVED_TO | IN_CLOSE_WRITE) < 0)
        abort();
    return watch;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static nvmlReturn_t next_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
    unsigned gpu;
    unsigned long long type, value;
    while (event(set->next, &gpu, &type, &value)) {
        set->next++;
        if ((set->types[gpu] & type) == 0)
            continue;
        *data = (nvmlEventData_t){.device = handle_of(gpu, 0),
                                  .eventType = type,
                                  .eventData = value,
                                  .gpuInstanceId = ~0u,
                                  .computeInstanceId = ~0u};
        return NVML_SUCCESS;
    }
    return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    struct pollfd changed = {.fd = watch_state(), .events = POLLIN};
    long long until_ms = now_ms() + timeout_ms, left_ms;
    nvmlReturn_t result;
    do {
        char seen[4096];
        while (read(changed.fd, seen, sizeof seen) > 0)
            continue;
        result = begin(__func__);
        if (result == NVML_SUCCESS)
            result = next_event(set, data);
        left_ms = until_ms - now_ms();
        if (result == NVML_ERROR_TIMEOUT && left_ms > 0)
            poll(&changed, 1, left_ms > 1000000 ? 1000000 : (int)left_ms);
    } while (result == NVML_ERROR_TIMEOUT && left_ms > 0);
    close(changed.fd);
    return result;
}
