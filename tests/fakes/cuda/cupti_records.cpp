// Records of managed memory and of waits as the structures of CUPTI's own header are (whose functions cupti.cpp declares in
// another way).
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cupti_activity.h>

#include <cstring>

static_assert(CUPTI_ACTIVITY_KIND_DRIVER == 4);
static_assert(sizeof(CUpti_ActivityUnifiedMemoryCounter3) == 104 && sizeof(CUpti_ActivitySynchronization2) <= 96);

void managed_record(uint8_t *record, int kind, uint64_t value, uint64_t start, uint64_t end, uint64_t address, uint32_t from, uint32_t to) {
  CUpti_ActivityUnifiedMemoryCounter3 told = {};
  told.kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
  told.counterKind = static_cast<CUpti_ActivityUnifiedMemoryCounterKind>(kind);
  told.value = value;
  told.start = start;
  told.end = kind == CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT ? 0 : end;  // to be ignored, says the header
  told.address = address;
  told.srcId = from;
  told.dstId = to;
  memcpy(record, &told, sizeof told);
}

void wait_record(uint8_t *record, const char *function, uint64_t start, uint64_t end, uint32_t number) {
  CUpti_ActivitySynchronization2 told = {};
  told.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  const auto is = [function](const char *name) { return strncmp(function, name, strlen(name)) == 0; };
  told.type = is("cuEventSynchronize") ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE
              : is("cuStreamWaitEvent") ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT
              : is("cuStreamSynchronize") ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE
                                          : CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  told.start = start;
  told.end = end;
  told.correlationId = number;
  told.contextId = 1;
  memcpy(record, &told, sizeof told);
}
