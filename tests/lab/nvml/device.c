// SPDX-License-Identifier: Apache-2.0
// NVML's calls about one device, whose answer is a text or a number. Each is named with the key of its value.
#include "call.h"

#define TEXT(function, key)                                                                                            \
    nvmlReturn_t function(nvmlDevice_t handle, char *to, unsigned size)                                                \
    {                                                                                                                  \
        device_t device;                                                                                               \
        nvmlReturn_t result = begin_device(#function, handle, &device);                                                \
        return result != NVML_SUCCESS ? result : give_text(device.prefix, key, to, size);                              \
    }

#define NUMBER(function, type, give, key)                                                                              \
    nvmlReturn_t function(nvmlDevice_t handle, type *to)                                                               \
    {                                                                                                                  \
        device_t device;                                                                                               \
        nvmlReturn_t result = begin_device(#function, handle, &device);                                                \
        return result != NVML_SUCCESS ? result : give(device.prefix, key, to);                                         \
    }

#define UNSIGNED(function, key) NUMBER(function, unsigned, give_unsigned, key)
#define UNSIGNED_LONG_LONG(function, key) NUMBER(function, unsigned long long, give_unsigned_long_long, key)

#define TWO_UNSIGNED(function, first_key, second_key)                                                                  \
    nvmlReturn_t function(nvmlDevice_t handle, unsigned *first, unsigned *second)                                      \
    {                                                                                                                  \
        device_t device;                                                                                               \
        nvmlReturn_t result = begin_device(#function, handle, &device);                                                \
        if (result == NVML_SUCCESS)                                                                                    \
            result = give_unsigned(device.prefix, first_key, first);                                                   \
        return result != NVML_SUCCESS ? result : give_unsigned(device.prefix, second_key, second);                     \
    }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
UNSIGNED(nvmlDeviceGetMinorNumber, "minor")
UNSIGNED(nvmlDeviceGetPersistenceMode, "persistence")

TWO_UNSIGNED(nvmlDeviceGetEccMode, "ecc.mode", "ecc.pending")
UNSIGNED(nvmlDeviceGetRetiredPagesPendingStatus, "pages.pending")

UNSIGNED_LONG_LONG(nvmlDeviceGetCurrentClocksEventReasons, "clocks.reasons")
UNSIGNED(nvmlDeviceGetPowerUsage, "power.usage_mw")
UNSIGNED(nvmlDeviceGetEnforcedPowerLimit, "power.limit_mw")
UNSIGNED_LONG_LONG(nvmlDeviceGetTotalEnergyConsumption, "power.energy_mj")

UNSIGNED(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
UNSIGNED(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
UNSIGNED(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width_max")
UNSIGNED(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
UNSIGNED(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation_max")

TWO_UNSIGNED(nvmlDeviceGetMigMode, "mig.mode", "mig.pending")
UNSIGNED(nvmlDeviceGetMaxMigDeviceCount, "mig.devices_max")
UNSIGNED(nvmlDeviceGetGpuInstanceId, "gpu_instance")
UNSIGNED(nvmlDeviceGetComputeInstanceId, "compute_instance")

UNSIGNED_LONG_LONG(nvmlDeviceGetSupportedEventTypes, "event_types")
