// SPDX-License-Identifier: Apache-2.0
// NVML's calls about the driver, and those that find devices.
#include <stdio.h>
#include <string.h>

#include "call.h"

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    nvmlReturn_t result = begin_init(__func__);
    if (result == NVML_SUCCESS)
        count_initialized(1);
    return result;
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = begin(__func__);
    if (result == NVML_SUCCESS)
        count_initialized(-1);
    return result;
}

// pynvml has texts of its own for most; these are NVML's of those that it has none for.
const char *nvmlErrorString(nvmlReturn_t result)
{
    static const struct {
        int number;
        const char *text;
    } texts[] = {
        {0, "The operation was successful"},
        {21, "No data"},
        {25, "The provided version is invalid/unsupported"},
        {26, "The requested functionality has been deprecated"},
        {27, "The system is not ready for the request"},
        {28, "No GPUs were found"},
        {29, "Resource not in correct state to perform requested operation"},
    };
    for (size_t place = 0; place < sizeof texts / sizeof *texts; place++)
        if (texts[place].number == (int)result)
            return texts[place].text;
    return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    nvmlReturn_t result = begin(__func__);
    return result != NVML_SUCCESS ? result : give_text("driver", "version", version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    nvmlReturn_t result = begin_init(__func__);
    return result != NVML_SUCCESS ? result : give_text("driver", "nvml_version", version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    nvmlReturn_t result = begin_init(__func__);
    return result != NVML_SUCCESS ? result : give_int("driver", "cuda_version", version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    nvmlReturn_t result = begin(__func__);
    unsigned gpus[GPUS_MAX];
    if (result == NVML_SUCCESS && count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *count = enumerated(gpus);
    return result;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *handle)
{
    nvmlReturn_t result = begin(__func__);
    unsigned gpus[GPUS_MAX];
    if (result != NVML_SUCCESS)
        return result;
    if (handle == NULL || index >= enumerated(gpus))
        return NVML_ERROR_INVALID_ARGUMENT;
    device_t device;
    *handle = handle_of(gpus[index], 0);
    return begin_device(__func__, *handle, &device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle)
{
    nvmlReturn_t result = begin(__func__);
    unsigned gpus[GPUS_MAX], count = enumerated(gpus);
    if (result != NVML_SUCCESS)
        return result;
    if (uuid == NULL || handle == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned place = 0; place < count; place++) {
        char prefix[PREFIX_MAX], value[STATE_VALUE_MAX];
        snprintf(prefix, sizeof prefix, "gpu%u", gpus[place]);
        if (state_text(prefix, "uuid", value) && strcmp(value, uuid) == 0) {
            device_t device;
            *handle = handle_of(gpus[place], 0);
            return begin_device(__func__, *handle, &device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned *index)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    unsigned gpus[GPUS_MAX], count = enumerated(gpus);
    if (result == NVML_SUCCESS)
        for (*index = 0; *index < count && gpus[*index] != (unsigned)gpu_of(handle);)
            ++*index;
    return result;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned index, nvmlDevice_t *mig)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    char key[STATE_KEY_MAX], value[STATE_VALUE_MAX];
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "mig%u.uuid", index);
    if (index >= 0xff || !state_text(device.prefix, key, value))
        return NVML_ERROR_NOT_FOUND;
    *mig = handle_of((unsigned)gpu_of(handle), index + 1);
    return NVML_SUCCESS;
}
