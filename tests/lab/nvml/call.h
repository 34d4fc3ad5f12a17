// SPDX-License-Identifier: Apache-2.0
// What every call does first: hang, crash or fail where the state says so, and find out whose value is asked for.
#ifndef LAB_NVML_CALL_H
#define LAB_NVML_CALL_H

#include "state.h"
#include "types.h"

enum { GPUS_MAX = 64, PREFIX_MAX = 32 };

// A device as the state names it: "gpu3", or "gpu3.mig1" for a MIG device.
typedef struct {
    char prefix[PREFIX_MAX];
} device_t;

nvmlDevice_t handle_of(unsigned gpu, unsigned mig_plus_1);

// The GPU's number in the state, whatever its place in the enumeration; negative for what is no handle.
int gpu_of(nvmlDevice_t handle);

// A call without a device: `driver.hangs`, `driver.crashes`, `driver.fails`, `driver.fails.FUNCTION`.
nvmlReturn_t begin(const char *function);

// The same for initialization, which alone may be called before it.
nvmlReturn_t begin_init(const char *function);

// A call about a device: all of begin, and the same keys of its GPU (gpu3.hangs, …).
nvmlReturn_t begin_device(const char *function, nvmlDevice_t handle, device_t *device);

// The GPUs that are enumerated, in this order: `gpus = 0 1 2`. Returns how many.
unsigned enumerated(unsigned gpus[static GPUS_MAX]);

// Copies PREFIX.KEY: NOT_SUPPORTED where it is missing, INSUFFICIENT_SIZE where it is too long.
nvmlReturn_t give_text(const char *prefix, const char *key, char *to, unsigned size);

nvmlReturn_t give_unsigned(const char *prefix, const char *key, unsigned *to);
nvmlReturn_t give_unsigned_long_long(const char *prefix, const char *key, unsigned long long *to);
nvmlReturn_t give_int(const char *prefix, const char *key, int *to);

void count_initialized(int by);

#endif
