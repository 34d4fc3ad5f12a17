// SPDX-License-Identifier: Apache-2.0
// NVML's calls about one device, whose answer is a structure, a list, or takes a kind to ask for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"

static const char *const ECC_TYPES[] = {"corrected", "uncorrected"};
static const char *const ECC_COUNTERS[] = {"volatile", "aggregate"};

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *pci)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result == NVML_SUCCESS)
        result = give_text(device.prefix, "pci", pci->busId, sizeof pci->busId); // 00000000:0F:00.0
    if (result != NVML_SUCCESS)
        return result;
    if (sscanf(pci->busId, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
        return NVML_ERROR_UNKNOWN;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    pci->pciDeviceId = 0x233510de; // H200 SXM
    pci->pciSubSystemId = 0x18be10de;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned type, unsigned counter, unsigned long long *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    char key[STATE_KEY_MAX];
    if (result != NVML_SUCCESS)
        return result;
    if (type > 1 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "ecc.%s.%s", ECC_COUNTERS[counter], ECC_TYPES[type]);
    return give_unsigned_long_long(device.prefix, key, to);
}

// By location: ecc.volatile.uncorrected.sram = 1
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t handle, unsigned type, unsigned counter, unsigned location,
                                             unsigned long long *to)
{
    static const char *const locations[] = {"l1", "l2", "dram", "registers", "texture", "texture_shm", "cbu", "sram"};
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    char key[STATE_KEY_MAX];
    if (result != NVML_SUCCESS)
        return result;
    if (type > 1 || counter > 1 || location >= sizeof locations / sizeof *locations)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "ecc.%s.%s.%s", ECC_COUNTERS[counter], ECC_TYPES[type], locations[location]);
    return give_unsigned_long_long(device.prefix, key, to);
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t handle, nvmlEccSramErrorStatus_v1_t *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result != NVML_SUCCESS)
        return result;
    if (to->version != VERSION(*to, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct {
        const char *key;
        unsigned long long *to;
    } counters[] = {
        {"sram.aggregate.parity", &to->aggregateUncParity},  {"sram.aggregate.secded", &to->aggregateUncSecDed},
        {"sram.aggregate.corrected", &to->aggregateCor},     {"sram.volatile.parity", &to->volatileUncParity},
        {"sram.volatile.secded", &to->volatileUncSecDed},    {"sram.volatile.corrected", &to->volatileCor},
        {"sram.buckets.l2", &to->aggregateUncBucketL2},      {"sram.buckets.sm", &to->aggregateUncBucketSm},
        {"sram.buckets.pcie", &to->aggregateUncBucketPcie},  {"sram.buckets.mcu", &to->aggregateUncBucketMcu},
        {"sram.buckets.other", &to->aggregateUncBucketOther},
    };
    for (size_t place = 0; place < sizeof counters / sizeof *counters && result == NVML_SUCCESS; place++)
        result = give_unsigned_long_long(device.prefix, counters[place].key, counters[place].to);
    return result != NVML_SUCCESS ? result
                                  : give_unsigned(device.prefix, "sram.threshold_exceeded", &to->bThresholdExceeded);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned *corrected, unsigned *uncorrected,
                                       unsigned *pending, unsigned *failure)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result == NVML_SUCCESS)
        result = give_unsigned(device.prefix, "rows.corrected", corrected);
    if (result == NVML_SUCCESS)
        result = give_unsigned(device.prefix, "rows.uncorrected", uncorrected);
    if (result == NVML_SUCCESS)
        result = give_unsigned(device.prefix, "rows.pending", pending);
    return result != NVML_SUCCESS ? result : give_unsigned(device.prefix, "rows.failure", failure);
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t handle, nvmlRowRemapperHistogramValues_t *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    char banks[STATE_VALUE_MAX]; // max high partial low none
    if (result != NVML_SUCCESS)
        return result;
    if (!state_text(device.prefix, "rows.histogram", banks))
        return NVML_ERROR_NOT_SUPPORTED;
    return sscanf(banks, "%u %u %u %u %u", &to->max, &to->high, &to->partial, &to->low, &to->none) == 5
               ? NVML_SUCCESS
               : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned link, unsigned *is_active)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    char key[STATE_KEY_MAX];
    snprintf(key, sizeof key, "link.%u", link);
    return result != NVML_SUCCESS ? result : give_unsigned(device.prefix, key, is_active);
}

// As many pages as pages.corrected or pages.uncorrected says, at invented addresses.
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t handle, unsigned cause, unsigned *count,
                                       unsigned long long *addresses)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    unsigned pages, room = count == NULL ? 0 : *count;
    if (result == NVML_SUCCESS && (cause > 1 || count == NULL))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = give_unsigned(device.prefix, cause == 0 ? "pages.corrected" : "pages.uncorrected", &pages);
    if (result != NVML_SUCCESS)
        return result;
    *count = pages;
    if (pages > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned page = 0; addresses != NULL && page < pages; page++)
        addresses[page] = 0x1000ull * (page + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t handle, nvmlRepairStatus_v1_t *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result == NVML_SUCCESS && to->version != VERSION(*to, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        result = give_unsigned(device.prefix, "repair.channel_pending", &to->bChannelRepairPending);
    return result != NVML_SUCCESS ? result
                                  : give_unsigned(device.prefix, "repair.tpc_pending", &to->bTpcRepairPending);
}

nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t handle, nvmlUnrepairableMemory_v1_t *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result == NVML_SUCCESS && to->version != VERSION(*to, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return result != NVML_SUCCESS ? result
                                  : give_unsigned(device.prefix, "repair.unrepairable_memory", &to->unrepairableMemory);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_v1_t *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result == NVML_SUCCESS && to->version != VERSION(*to, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS && to->sensorType != 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return result != NVML_SUCCESS ? result : give_int(device.prefix, "temperature.gpu", &to->temperature);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t handle, nvmlMarginTemperature_v1_t *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result == NVML_SUCCESS && to->version != VERSION(*to, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return result != NVML_SUCCESS ? result : give_int(device.prefix, "temperature.margin", &to->marginTemperature);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t handle, unsigned threshold, unsigned *to)
{
    static const char *const keys[] = {"temperature.shutdown", "temperature.slowdown", "temperature.memory_max",
                                       "temperature.gpu_max"};
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    if (result != NVML_SUCCESS)
        return result;
    if (threshold >= sizeof keys / sizeof *keys)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_unsigned(device.prefix, keys[threshold], to);
}

static nvmlReturn_t give_fabric(const char *prefix, nvmlGpuFabricInfo_v2_t *to)
{
    unsigned status, state;
    nvmlReturn_t result = give_unsigned(prefix, "fabric.state", &state);
    if (result == NVML_SUCCESS)
        result = give_unsigned(prefix, "fabric.status", &status);
    if (result == NVML_SUCCESS)
        result = give_unsigned(prefix, "fabric.clique", &to->cliqueId);
    if (result == NVML_SUCCESS)
        result = give_unsigned(prefix, "fabric.health_mask", &to->healthMask);
    if (result != NVML_SUCCESS)
        return result;
    to->state = (unsigned char)state;
    to->status = (nvmlReturn_t)status;
    memset(to->clusterUuid, state == 3 ? 0x5c : 0, sizeof to->clusterUuid);
    return NVML_SUCCESS;
}

// Version 3 is version 2 and a summary; a driver older than 580 does not know it.
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t handle, nvmlGpuFabricInfo_v3_t *to)
{
    device_t device;
    nvmlReturn_t result = begin_device(__func__, handle, &device);
    unsigned summary;
    if (result != NVML_SUCCESS)
        return result;
    if (to->version != VERSION(nvmlGpuFabricInfo_v2_t, 2) && to->version != VERSION(*to, 3))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (to->version == VERSION(*to, 3)) {
        result = give_unsigned(device.prefix, "fabric.summary", &summary);
        if (result != NVML_SUCCESS)
            return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        to->healthSummary = (unsigned char)summary;
    }
    return give_fabric(device.prefix, (nvmlGpuFabricInfo_v2_t *)to);
}
