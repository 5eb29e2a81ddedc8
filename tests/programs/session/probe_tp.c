/* The provider of the test program, loaded by it as the product loads its own: on first use. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "probe_tp.h"

void probe_tick(int pid, int number) { lttng_ust_tracepoint(occatrace_probe, tick, pid, number); }
