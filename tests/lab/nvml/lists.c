// SPDX-License-Identifier: Apache-2.0
// NVML's calls about one device, whose answer is many values at once: processes and fields.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

// A list `PID:BYTES PID:BYTES`; no key at all is no process, as on a real GPU.
static nvmlReturn_t give_processes(const char *prefix, const char *key, unsigned *count, nvmlProcessInfo_t *processes)
{
    char words[STATE_VALUE_MAX] = "", *rest = words;
    unsigned room = *count, found = 0;
    state_text(prefix, key, words);
    for (char *one = strtok_r(words, " ", &rest); one != NULL; one = strtok_r(NULL, " ", &rest), found++) {
        if (processes == NULL || found >= room)
            continue;
        char *colon;
        processes[found] = (nvmlProcessInfo_t){.pid = (unsigned)strtoul(one, &colon, 10),
                                               .gpuInstanceId = ~0u,
                                               .computeInstanceId = ~0u};
        processes[found].usedGpuMemory = *colon == ':' ? strtoull(colon + 1, NULL, 10) : ~0ull;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned *count, nvmlProcessInfo_t *processes)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    return result != NVML_SUCCESS ? result : give_processes(device.prefix, "processes.compute", count, processes);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned *count,
                                                      nvmlProcessInfo_t *processes)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    return result != NVML_SUCCESS ? result : give_processes(device.prefix, "processes.graphics", count, processes);
}

// A value's type follows it: 3 is an unsigned long long, `3 u` unsigned, `-3 i` int, `0.5 d` double.
static nvmlReturn_t give_field(const char *text, nvmlFieldValue_t *field)
{
    char *type;
    unsigned long long value = *text == '-' ? (unsigned long long)strtoll(text, &type, 0) : strtoull(text, &type, 0);
    if (type == text)
        return NVML_ERROR_UNKNOWN;
    switch (text[strlen(text) - 1]) {
    case 'u':
        field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        field->value.uiVal = (unsigned)value;
        break;
    case 'i':
        field->valueType = NVML_VALUE_TYPE_SIGNED_INT;
        field->value.siVal = (int)value;
        break;
    case 'd':
        field->valueType = NVML_VALUE_TYPE_DOUBLE;
        field->value.dVal = strtod(text, NULL);
        break;
    default:
        field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        field->value.ullVal = value;
    }
    return NVML_SUCCESS;
}

// field.230 = 0 u, and for a field of each link: field.165.17 = 1 u. A field fails by itself (field_fails.230 = 15).
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t *fields)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result != NVML_SUCCESS)
        return result;
    for (int place = 0; place < count; place++) {
        nvmlFieldValue_t *field = &fields[place];
        char key[STATE_KEY_MAX], value[STATE_VALUE_MAX];
        long long error;
        snprintf(key, sizeof key, "field_fails.%u", field->fieldId);
        if (state_number(device.prefix, key, &error)) {
            field->nvmlReturn = (nvmlReturn_t)error;
            continue;
        }
        snprintf(key, sizeof key, "field.%u.%u", field->fieldId, field->scopeId);
        bool found = state_text(device.prefix, key, value);
        if (!found && field->scopeId == 0) {
            snprintf(key, sizeof key, "field.%u", field->fieldId);
            found = state_text(device.prefix, key, value);
        }
        field->nvmlReturn = found ? give_field(value, field) : NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}
