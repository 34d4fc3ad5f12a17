// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int initialized;

void count_initialized(int by)
{
    if (by > 0 || initialized > 0)
        initialized += by;
}

nvmlDevice_t handle_of(unsigned gpu, unsigned mig_plus_1)
{
    return (nvmlDevice_t)(uintptr_t)((gpu + 1) | mig_plus_1 << 8);
}

int gpu_of(nvmlDevice_t handle)
{
    return (int)((uintptr_t)handle & 0xff) - 1;
}

static nvmlReturn_t fate(const char *prefix, const char *function)
{
    if (state_has_word(prefix, "hangs", function))
        for (;;)
            pause();
    if (state_has_word(prefix, "crashes", function))
        raise(SIGSEGV);
    char key[STATE_KEY_MAX];
    snprintf(key, sizeof key, "fails.%s", function);
    long long error;
    if (state_number(prefix, key, &error) || state_number(prefix, "fails", &error))
        return (nvmlReturn_t)error;
    return NVML_SUCCESS;
}

nvmlReturn_t begin_init(const char *function)
{
    state_refresh();
    return fate("driver", function);
}

nvmlReturn_t begin(const char *function)
{
    nvmlReturn_t result = begin_init(function);
    return initialized == 0 ? NVML_ERROR_UNINITIALIZED : result;
}

nvmlReturn_t begin_device(const char *function, nvmlDevice_t handle, device_t *device)
{
    nvmlReturn_t result = begin(function);
    int gpu = gpu_of(handle);
    if (result != NVML_SUCCESS || gpu < 0)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    unsigned gpus[GPUS_MAX], count = enumerated(gpus), place = 0;
    while (place < count && gpus[place] != (unsigned)gpu)
        place++;
    if (place == count)
        return NVML_ERROR_GPU_IS_LOST; // it was there when the handle was given out
    char name[16];
    snprintf(name, sizeof name, "gpu%d", gpu);
    unsigned mig = (unsigned)((uintptr_t)handle >> 8 & 0xff);
    if (mig == 0)
        snprintf(device->prefix, sizeof device->prefix, "%s", name);
    else
        snprintf(device->prefix, sizeof device->prefix, "%s.mig%u", name, mig - 1);
    return fate(name, function);
}

unsigned enumerated(unsigned gpus[static GPUS_MAX])
{
    char words[STATE_VALUE_MAX], *rest = words;
    unsigned count = 0;
    if (!state_text("", "gpus", words))
        return 0;
    for (char *one = strtok_r(words, " ", &rest); one != NULL && count < GPUS_MAX; one = strtok_r(NULL, " ", &rest))
        gpus[count++] = (unsigned)strtoul(one, NULL, 10) % GPUS_MAX;
    return count;
}

nvmlReturn_t give_text(const char *prefix, const char *key, char *to, unsigned size)
{
    char value[STATE_VALUE_MAX];
    if (to == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!state_text(prefix, key, value))
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(value) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, value);
    return NVML_SUCCESS;
}

static nvmlReturn_t give_number(const char *prefix, const char *key, long long *to)
{
    return state_number(prefix, key, to) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t give_unsigned(const char *prefix, const char *key, unsigned *to)
{
    long long value;
    nvmlReturn_t result = to == NULL ? NVML_ERROR_INVALID_ARGUMENT : give_number(prefix, key, &value);
    if (result == NVML_SUCCESS)
        *to = (unsigned)value;
    return result;
}

nvmlReturn_t give_unsigned_long_long(const char *prefix, const char *key, unsigned long long *to)
{
    long long value;
    nvmlReturn_t result = to == NULL ? NVML_ERROR_INVALID_ARGUMENT : give_number(prefix, key, &value);
    if (result == NVML_SUCCESS)
        *to = (unsigned long long)value;
    return result;
}

nvmlReturn_t give_int(const char *prefix, const char *key, int *to)
{
    return give_unsigned(prefix, key, (unsigned *)to);
}
