/* Stands in for Level Zero's loader: a device with known values, of which the energy is that of 250 W and the engines work
 * 40 % of the time, and one of two tiles, 100 W and 10 % each, that has no temperature and does not know its clock. Built
 * against the vendor's header, so that the layouts which occatrace/record/sysman.py has are checked. OLD: a loader without zesInit. */
#include <level_zero/zes_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES = 2, TILES = 2 };
static int ready;

static uint64_t microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* A handle: device, domain of it, counted from 1; two kinds of domain (GPU and memory clocks). */
static void *handle(size_t device, size_t part, size_t kind) { return (void *)(1 + device + 16 * part + 256 * kind); }
static size_t device_of(const void *h) { return ((size_t)h - 1) % 16; }
static size_t part_of(const void *h) { return ((size_t)h - 1) / 16 % 16; }
static size_t kind_of(const void *h) { return ((size_t)h - 1) / 256; }

static ze_result_t give(uint32_t *count, void *to, const void *const *handles, uint32_t known) {
    if (!ready) return ZE_RESULT_ERROR_UNINITIALIZED;
    if (*count == 0 || *count > known) *count = known;
    if (to != NULL) memcpy(to, handles, *count * sizeof *handles);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t parts(zes_device_handle_t device, uint32_t *count, void *to, size_t kinds) {
    const void *handles[TILES * 2];
    uint32_t known = 0;
    for (size_t kind = 0; kind < kinds; kind++)
        for (size_t part = 0; part < (device_of(device) ? TILES : 1); part++) handles[known++] = handle(device_of(device), part, kind);
    return give(count, to, handles, known);
}

#ifdef OLD
ze_result_t zeInit(ze_init_flags_t flags) {
    const char *wanted = getenv("ZES_ENABLE_SYSMAN");
    ready = wanted != NULL && strcmp(wanted, "1") == 0;
    return ZE_RESULT_SUCCESS;
}
#define DRIVERS zeDriverGet
#define DEVICES_OF zeDeviceGet
#else
ze_result_t zesInit(uint32_t flags) {
    ready = 1;
    return flags ? ZE_RESULT_ERROR_INVALID_ENUMERATION : ZE_RESULT_SUCCESS;
}
#define DRIVERS zesDriverGet
#define DEVICES_OF zesDeviceGet
#endif

ze_result_t DRIVERS(uint32_t *count, ze_driver_handle_t *drivers) {
    const void *one[] = {handle(0, 0, 0)};
    return give(count, drivers, one, 1);
}
ze_result_t DEVICES_OF(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *devices) {
    const void *all[DEVICES] = {handle(0, 0, 0), handle(1, 0, 0)};
    return give(count, devices, all, DEVICES);
}

#define TYPED(p, number) if ((p)->stype != (number)) return ZE_RESULT_ERROR_UNSUPPORTED_VERSION
#define PLACE(p, h) (p)->onSubdevice = device_of(h) != 0, (p)->subdeviceId = (uint32_t)part_of(h)

ze_result_t zesDeviceGetProperties(zes_device_handle_t d, zes_device_properties_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES);
    TYPED(&p->core, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
    strcpy(p->core.name, device_of(d) ? "Stand-in tiles" : "Stand-in  X");
    p->numSubdevices = device_of(d) ? TILES : 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumPowerDomains(zes_device_handle_t d, uint32_t *n, zes_pwr_handle_t *h) { return parts(d, n, h, 1); }
ze_result_t zesPowerGetProperties(zes_pwr_handle_t h, zes_power_properties_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_POWER_PROPERTIES);
    PLACE(p, h);
    p->maxLimit = 1;
    return ZE_RESULT_SUCCESS;
}
ze_result_t zesPowerGetEnergyCounter(zes_pwr_handle_t h, zes_power_energy_counter_t *p) {
    p->timestamp = microseconds();
    p->energy = p->timestamp * (device_of(h) ? 100 : 250);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumFrequencyDomains(zes_device_handle_t d, uint32_t *n, zes_freq_handle_t *h) { return parts(d, n, h, 2); }
ze_result_t zesFrequencyGetProperties(zes_freq_handle_t h, zes_freq_properties_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_FREQ_PROPERTIES);
    PLACE(p, h);
    p->type = kind_of(h) ? ZES_FREQ_DOMAIN_MEMORY : ZES_FREQ_DOMAIN_GPU;
    p->max = 1;
    return ZE_RESULT_SUCCESS;
}
ze_result_t zesFrequencyGetState(zes_freq_handle_t h, zes_freq_state_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_FREQ_STATE);
    p->actual = device_of(h) && !kind_of(h) ? -1 : kind_of(h) ? 3200 : 1550;
    p->throttleReasons = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumTemperatureSensors(zes_device_handle_t d, uint32_t *n, zes_temp_handle_t *h) {
    if (device_of(d)) return give(n, h, NULL, 0);
    return parts(d, n, h, 2);
}
ze_result_t zesTemperatureGetProperties(zes_temp_handle_t h, zes_temp_properties_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_TEMP_PROPERTIES);
    PLACE(p, h);
    p->type = kind_of(h) ? ZES_TEMP_SENSORS_MEMORY : ZES_TEMP_SENSORS_GPU;
    return ZE_RESULT_SUCCESS;
}
ze_result_t zesTemperatureGetState(zes_temp_handle_t h, double *temperature) {
    *temperature = kind_of(h) ? 90 : 61;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumEngineGroups(zes_device_handle_t d, uint32_t *n, zes_engine_handle_t *h) { return parts(d, n, h, 2); }
ze_result_t zesEngineGetProperties(zes_engine_handle_t h, zes_engine_properties_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_ENGINE_PROPERTIES);
    PLACE(p, h);
    p->type = kind_of(h) ? ZES_ENGINE_GROUP_COPY_ALL : ZES_ENGINE_GROUP_ALL;
    return ZE_RESULT_SUCCESS;
}
ze_result_t zesEngineGetActivity(zes_engine_handle_t h, zes_engine_stats_t *p) {
    p->timestamp = microseconds();
    p->activeTime = p->timestamp / 10 * (device_of(h) ? 1 : 4);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumMemoryModules(zes_device_handle_t d, uint32_t *n, zes_mem_handle_t *h) { return parts(d, n, h, 1); }
ze_result_t zesMemoryGetProperties(zes_mem_handle_t h, zes_mem_properties_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_MEM_PROPERTIES);
    PLACE(p, h);
    p->numChannels = 8;
    return ZE_RESULT_SUCCESS;
}
ze_result_t zesMemoryGetState(zes_mem_handle_t h, zes_mem_state_t *p) {
    TYPED(p, ZES_STRUCTURE_TYPE_MEM_STATE);
    p->size = 1 << 30;
    p->free = p->size - (4096 << part_of(h));
    return ZE_RESULT_SUCCESS;
}
