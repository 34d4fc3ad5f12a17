// SPDX-License-Identifier: Apache-2.0
// Event sets. `event0 = 3 8 79` is the first event that ever happens: on GPU 3, of type 8 (XID), with data 79; the next is
// event1. A set is told those that happen after it was made, for the GPUs and types that it is registered for.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "call.h"

enum { POLL_MS = 2 };

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

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    for (unsigned waited_ms = 0;; waited_ms += POLL_MS) {
        nvmlReturn_t result = begin(__func__);
        if (result != NVML_SUCCESS)
            return result;
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
        if (waited_ms >= timeout_ms)
            return NVML_ERROR_TIMEOUT;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
    }
}
