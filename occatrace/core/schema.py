"""The one list of the tables of a run: columns, types, units and what they mean. No code that fills or reads them.

`docs/schema.md` and the checks of the store derive from it; `SCHEMA_VERSION` changes when a table or a column does.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 11

VERSIONS = {
    1: "processes, threads, calls, device work, OCCA kernels and copies, tallies, losses",
    2: "memory, annotations, counters, kernel builds and arguments, OpenMP, MPI, ranks; the run's zero (`processes.first_ns`)",
    3: "Python: imports, calls into it, functions, lines, messages; what was captured, and what was left out",
    4: "counts of PAPI, flags of memory, pools and builds of Python, processor time of Python, managed memory and waits of CUDA",
    5: "where in the program calls were made",
    6: "the stacks in which calls were made",
    7: "commands, allocations and waits of SYCL",
    8: "stacks of threads by processor time",
}

# Kinds of device work (model: device.yaml, activity_kind) that copy memory, and all that move or set it.
COPY_KINDS = ("HtoD", "DtoH", "DtoD", "HtoH")
MEMORY_KINDS = (*COPY_KINDS, "fill", "map", "unmap", "migrate")

# OCCA modes in which the call itself is the work: there is no device behind it that could be timed.
HOST_MODES = ("Serial", "OpenMP")

NO_SEQ = 0xFFFF_FFFF  # "no such call" in fields that name a call by its number


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    type: str  # DuckDB's name of the type
    unit: str
    help: str


@dataclass(frozen=True)
class Table:
    """One table of the store, kept as `tables/<name>.parquet`."""

    name: str
    help: str
    columns: tuple[Column, ...]

    def ddl(self) -> str:
        """The column list of CREATE TABLE."""
        return ", ".join(f'"{c.name}" {c.type}' for c in self.columns)


def _columns(text: str) -> tuple[Column, ...]:
    """Columns from lines of `name type unit explanation`."""
    rows = (line.split(None, 3) for line in text.strip().splitlines())
    return tuple(Column(name, type_, unit, help_) for name, type_, unit, help_ in rows)


_STATS = """
calls        UBIGINT   count  calls that returned
failed       UBIGINT   count  calls that failed, by the model's failure rule
total_ns     UBIGINT   ns     sum of the durations
mean_ns      DOUBLE    ns     mean duration
m2           DOUBLE    ns²    sum of the squared deviations from the mean
min_ns       UBIGINT   ns     shortest call
max_ns       UBIGINT   ns     longest call
bytes        UBIGINT   bytes  sum of the byte counts of the calls that did not fail, where the model names one
"""

TABLES: tuple[Table, ...] = (
    Table(
        "processes",
        "one row per program image that was traced (an exec starts a new one)",
        _columns("""
process      UINTEGER  id     number of the process within the run
host         VARCHAR   text   host name
pid          UINTEGER  id     process id
ppid         UINTEGER  id     parent's process id
exe          VARCHAR   text   path of the executable
cmdline      VARCHAR   text   its arguments
run          VARCHAR   text   id of the run, as given by occa_prof
mode         VARCHAR   text   recording level
version      VARCHAR   text   version of the preloaded library
start_ns     UBIGINT   ns     when tracing of the process began (CLOCK_MONOTONIC)
end_ns       UBIGINT   ns     its last event
realtime_ns  UBIGINT   ns     CLOCK_REALTIME at mono_ns
mono_ns      UBIGINT   ns     CLOCK_MONOTONIC at the same moment
exit         VARCHAR   text   how it ended: exit, _exit, exec, unload, abort, imported (not known); null: it did not get to say
trace        VARCHAR   text   folder of its trace within the run's
rank         INTEGER   rank   its rank in an MPI job, by the variables of its launcher; null: none
size         INTEGER   count  ranks of that job; null: not known
local_rank   INTEGER   rank   its rank among those of its node; null: not known
job          VARCHAR   text   what the launcher calls the job; empty: nothing
cpus         VARCHAR   text   processors that it may use, as 0-3,8; empty: not known
first_ns     UBIGINT   ns     first call, range, Python or work of its node; the earliest of the run is zero in all views; null: none
"""),
    ),
    Table(
        "threads",
        "one row per thread (a thread id that was used again is a new thread)",
        _columns("""
thread       UINTEGER  id     number of the thread within the run
process      UINTEGER  id     its process
tid          UINTEGER  id     thread id
name         VARCHAR   text   its name
start_ns     UBIGINT   ns     its first event
end_ns       UBIGINT   ns     its last event
"""),
    ),
    Table(
        "failures",
        "failed calls and why, at every recording level (the first 1000 of a function in a process)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread; null: it was only tallied
api          VARCHAR   text   API
function     VARCHAR   text   function
code         BIGINT    code   value of the field by which the failure is known
error        VARCHAR   text   name of the error, or the message of the exception
lost         VARCHAR   text   what did not come about: kind of device work, memory, build; null: none of these
"""),
    ),
    Table(
        "names",
        "interned names",
        _columns("""
process      UINTEGER  id     process
id           UINTEGER  id     number of the name within the process
text         VARCHAR   text   the name
"""),
    ),
    Table(
        "sites",
        "places in the code that events name, by debug information",
        _columns("""
process      UINTEGER  id     process
id           UINTEGER  id     number of the name within the process, as in the arguments `site`
module       VARCHAR   text   file of the program or library
offset       UBIGINT   bytes  address in it
function     VARCHAR   text   function; empty: not known
file         VARCHAR   text   source file; empty: not known
line         UINTEGER  line   line in it; 0: not known
"""),
    ),
    Table(
        "call_sites",
        "places in the program from which recorded calls were made (the outermost call counts), by debug information",
        _columns("""
process      UINTEGER  id     process
site         UINTEGER  id     number of the place within the process
address      UBIGINT   handle return address, as in the column `caller` of single calls; null: a line of Python
module       VARCHAR   text   file of the program or library; empty: not known
offset       UBIGINT   bytes  address of the call in it
build_id     VARCHAR   text   build id of that file; empty: it has none
function     VARCHAR   text   function; empty: not known
file         VARCHAR   text   source file; empty: not known
line         UINTEGER  line   line in it; 0: not known
why          VARCHAR   text   why the line is not known; empty: it is
"""),
    ),
    Table(
        "call_site_stats",
        "recorded calls by function and place",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
api          VARCHAR   text   API
function     VARCHAR   text   function
site         UINTEGER  id     place (call_sites.site)
calls        UBIGINT   count  calls that returned
failed       UBIGINT   count  calls that failed
total_ns     UBIGINT   ns     sum of the durations
bytes        UBIGINT   bytes  sum of the byte counts of the calls that did not fail
"""),
    ),
    Table(
        "call_places",
        "places of single calls: those that make device work, allocate, build, run OCCA kernels, or (CUDA) wait",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
site         UINTEGER  id     place (call_sites.site)
"""),
    ),
    Table(
        "path_calls",
        "single calls and the stacks in which the program made them (--call-paths)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
path         UINTEGER  id     its stack (call_paths.path)
"""),
    ),
    Table(
        "call_paths",
        "stacks of the program at calls and of samples, a row for each frame, with those that were inlined",
        _columns("""
process      UINTEGER  id     process
path         UINTEGER  id     number of the stack within the process
depth        UINTEGER  number position of the frame: 0 is the outermost
site         UINTEGER  id     place of the call that it makes, or at which it was sampled (call_sites.site)
inlined      BOOLEAN   bool   its function was inlined into that of the frame before
function     VARCHAR   text   function; empty: not known
file         VARCHAR   text   source file; empty: not known
line         UINTEGER  line   line in it; 0: not known
cut          VARCHAR   text   of the outermost frame: why there is none around it; empty: the thread begins there
"""),
    ),
    Table(
        "stack_samples",
        "stacks of threads by their processor time (--sample-stacks)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
time_ns      UBIGINT   ns     moment
cpu_ns       UBIGINT   ns     processor time of the thread that the sample stands for
path         UINTEGER  id     its stack (call_paths.path); 0: not known
frame        UINTEGER  id     its innermost frame in Python (python_frames.id); 0: none
"""),
    ),
    Table(
        "sampled_threads",
        "processor time of threads, and how much of it was sampled (--sample-stacks)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
cpu_ns       UBIGINT   ns     processor time
sampled_ns   UBIGINT   ns     processor time for which there are samples
lost_ns      UBIGINT   ns     processor time of samples that were lost, because they were not written in time
"""),
    ),
    Table(
        "kernels",
        "OCCA kernel objects as their author named them",
        _columns("""
kernel       UINTEGER  id     number of the kernel within the run
process      UINTEGER  id     process
id           UINTEGER  id     number of the kernel within the process
name         VARCHAR   text   name in the source
mode         VARCHAR   text   OCCA mode in which it really runs
source       VARCHAR   text   source file; of an inline kernel, that of its caller
line         UINTEGER  line   line of the kernel (or of the call) in it; 0: not known
binary       VARCHAR   text   file that was loaded
"""),
    ),
    Table(
        "devices",
        "devices",
        _columns("""
device       UINTEGER  id     number of the device within the run
process      UINTEGER  id     process
id           UINTEGER  id     number of the device within the process
api          VARCHAR   text   API that showed it
platform     VARCHAR   text   platform
name         VARCHAR   text   device name
vendor       VARCHAR   text   vendor
handle       UBIGINT   handle the program's handle
"""),
    ),
    Table(
        "queues",
        "queues and streams",
        _columns("""
queue        UINTEGER  id     number of the queue within the run
process      UINTEGER  id     process
id           UINTEGER  id     number of the queue within the process
device       UINTEGER  id     its device
handle       UBIGINT   handle the program's handle
flags        UINTEGER  bits   1: out of order, 2: the program asked for profiling
context      UBIGINT   handle its context
"""),
    ),
    Table(
        "clocks",
        "calibration points of the device clocks",
        _columns("""
device         UINTEGER  id   device
host_ns        UBIGINT   ns   host time
device_time    UBIGINT   tick device time at that moment
uncertainty_ns UBIGINT   ns   half-width of the bracket
"""),
    ),
    Table(
        "clock_warnings",
        "activities that had to be moved into [enqueue, completion seen], or that the host timed by these two moments",
        _columns("""
device       UINTEGER  id     device
clamped      UBIGINT   count  activities moved or timed
worst_ns     UBIGINT   ns     longest way that one was moved; 0: the device has no clock, the host timed them
"""),
    ),
    Table(
        "captures",
        "when a process recorded, by its own doing; one that always did has no rows, one that never did an empty span",
        _columns("""
process      UINTEGER  id     process
start_ns     UBIGINT   ns     recording begins
end_ns       UBIGINT   ns     and ends
"""),
    ),
    Table(
        "excluded",
        "what was left out of the run because it was not chosen (--kernels, --functions and the like)",
        _columns("""
process      UINTEGER  id     process
reason       VARCHAR   -      kernel, function, thread, tag, queue
name         VARCHAR   -      of the kernel
count        UBIGINT   count  launches of the kernel, else calls
"""),
    ),
    Table(
        "kernel_runs",
        "every call of an OCCA kernel by the program",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
kernel       UINTEGER  id     kernel
start_ns     UBIGINT   ns     call begins
end_ns       UBIGINT   ns     call returns
launches     UINTEGER  count  device launches that it made
memory_args  UINTEGER  count  distinct memory objects among its arguments; null: not known
memory_bytes UBIGINT   bytes  their sizes, each counted once; null: not known
error        VARCHAR   text   name of the error; null: none
"""),
    ),
    Table(
        "occa_copies",
        "every copy by an OCCA call",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
kind         VARCHAR   text   direction
mode         VARCHAR   text   OCCA mode of the memory
bytes        UBIGINT   bytes  bytes copied
start_ns     UBIGINT   ns     call begins
end_ns       UBIGINT   ns     call returns
error        VARCHAR   text   name of the error; null: none
"""),
    ),
    Table(
        "activities",
        "work on devices",
        _columns("""
process      UINTEGER  id     process
kind         VARCHAR   text   kernel, HtoD, DtoH, DtoD, HtoH, fill, map, unmap, marker, migrate, native, other
name         VARCHAR   text   kernel name of the backend; for other kinds the kind
device       UINTEGER  id     device
queue        UINTEGER  id     queue
thread       UINTEGER  id     thread of the call that launched it
seq          UINTEGER  id     number of that call in its thread
run_seq      UINTEGER  id     number of the OCCA kernel call it belongs to, same thread; null: none
kernel       UINTEGER  id     OCCA kernel it belongs to; null: none
queued_ns    UBIGINT   ns     enqueued (host clock, as all times here)
submitted_ns UBIGINT   ns     submitted to the device
start_ns     UBIGINT   ns     begins
end_ns       UBIGINT   ns     ends
bytes        UBIGINT   bytes  bytes moved
gx           UINTEGER  count  threads in x (work-items, all groups)
gy           UINTEGER  count  in y
gz           UINTEGER  count  in z
lx           UINTEGER  count  threads per group in x
ly           UINTEGER  count  in y
lz           UINTEGER  count  in z
status       INTEGER   code   0: complete; negative: error code
source       VARCHAR   text   of a copy, what it reads: pageable, pinned, mapped, registered, managed, svm, device, array, peer, null
target       VARCHAR   text   likewise what it writes
"""),
    ),
    Table(
        "managed_memory",
        "what the driver did to managed memory by itself, as reported by CUPTI: no work of the program, and in no busy time",
        _columns("""
process      UINTEGER  id     process
kind         VARCHAR   text   HtoD, DtoH, DtoD (pages moved), CPU page faults, GPU page faults, thrashing, throttling, remote map
device       UINTEGER  id     device to or from which, or whose faults; null: the host's, or not known
start_ns     UBIGINT   ns     begins
end_ns       UBIGINT   ns     ends
bytes        UBIGINT   bytes  bytes moved; null: nothing moves
count        UBIGINT   count  how many faults; null: pages moved
address      UBIGINT   handle where the pages begin
"""),
    ),
    Table(
        "waits",
        "waits for work of devices, as reported by CUPTI; each belongs to a call, which has the handles",
        _columns("""
process       UINTEGER  id     process
kind          VARCHAR   text   what is waited for: event, stream, context; stream for event: a queue waits for an event
thread        UINTEGER  id     thread of the call
seq           UINTEGER  id     number of that call in its thread
queue         UINTEGER  id     queue that is waited for (of an event: in which it was recorded); null: all of a context, or not known
waiting_queue UINTEGER  id     queue that waits; null: the thread does
start_ns      UBIGINT   ns     begins
end_ns        UBIGINT   ns     ends
"""),
    ),
    Table(
        "allocations",
        "memory that was allocated, and parts of it (slices, sub-buffers) that were given a handle of their own",
        _columns("""
process       UINTEGER  id     process
api           VARCHAR   text   API that allocated: occa, opencl, …
kind          VARCHAR   text   device, host (pinned), mapped, managed, svm, image, pipe, pool, slice (a part), wrapped (own), array
flags         VARCHAR   text   what else was asked for, by the names of its API's flags; null: nothing
mode          VARCHAR   text   OCCA mode of the memory; null: not OCCA's
device        UINTEGER  id     device; null: not known, or the host
handle        UBIGINT   handle the program's handle, or the address
parent        UBIGINT   handle of what it is a part of (such a part counts no bytes); null: none
bytes         UBIGINT   bytes  size
function      VARCHAR   text   call that allocated
thread        UINTEGER  id     thread of that call
seq           UINTEGER  id     number of that call in its thread
scope_seq     UINTEGER  id     number of the outermost OCCA call around it, same thread; null: none
start_ns      UBIGINT   ns     allocated (the call returns)
end_ns        UBIGINT   ns     freed (the freeing call begins); null: never
free_function VARCHAR   text   call in which it ended; null: not seen (its handle was given out again), or never
free_thread   UINTEGER  id     thread of that call
free_seq      UINTEGER  id     number of that call in its thread
call_ns       UBIGINT   ns     duration of the allocating call
free_call_ns  UBIGINT   ns     duration of the freeing call; 0 where only the end itself was seen
used_ns       UBIGINT  ns     the last kernel, copy or fill that used it ended; null: none known (--python lines)
uses          UBIGINT  count  kernels, copies and fills that used it; null: not known
"""),
    ),
    Table(
        "builds",
        "calls that build or load code for a device: OCCA's, and those of the API below within them",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
api          VARCHAR   text   API
function     VARCHAR   text   function
name         VARCHAR   text   kernel that OCCA was asked for; null: another API
kernel       UINTEGER  id     its kernel; null: it failed, or another API
mode         VARCHAR   text   OCCA mode; null: another API
source       VARCHAR   text   source file; null: another API
cached       BOOLEAN   bool   the binary was there and nothing was compiled; null: another API
compiler_ns  UBIGINT   ns     processor time of the compilers that OCCA ran as child processes meanwhile
start_ns     UBIGINT   ns     call begins
end_ns       UBIGINT   ns     call returns
failed       BOOLEAN   bool   it failed, by the model's failure rule
"""),
    ),
    Table(
        "ranges",
        "what the program marked by annotations: ranges and marks",
        _columns("""
process      UINTEGER  id     process
api          VARCHAR   text   nvtx, roctx, itt, occatrace; of what was imported also pytorch, chrome
domain       VARCHAR   text   domain; empty: the default one
category     VARCHAR   text   category; null: none
name         VARCHAR   text   what the program calls it
kind         VARCHAR   text   push (nested in its thread), start (may overlap), mark (a moment)
color        UINTEGER  argb   colour; null: none
payload      VARCHAR   text   value attached to it; null: none
thread       UINTEGER  id     thread in which it began
seq          UINTEGER  id     number of its start in that thread; null: its start was not recorded
depth        UINTEGER  count  ranges of its domain around it in its thread (push only)
start_ns     UBIGINT   ns     begins
end_ns       UBIGINT   ns     ends; a mark's is its start; null: never ended
end_thread   UINTEGER  id     thread in which it ended; null: a mark, or never ended
end_seq      UINTEGER  id     number of its end in that thread
"""),
    ),
    Table(
        "counters",
        "values over time, sampled or given by the program",
        _columns("""
process      UINTEGER  id     process
device       UINTEGER  id     device; null: of the process
name         VARCHAR   text   what is counted
unit         VARCHAR   text   its unit
time_ns      UBIGINT   ns     moment of the sample
value        DOUBLE    number value
"""),
    ),
    Table(
        "papi_counts",
        "what PAPI counted in kernel calls of the modes Serial and OpenMP, and in ranges (--papi)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread of the call or range
seq          UINTEGER  id     number of the kernel call (kernel_runs.seq) or of the start of the range (ranges.seq) in its thread
counter      VARCHAR   text   event, as PAPI calls it
value        BIGINT    number how often it happened, with the OpenMP teams that worked for the call or range
"""),
    ),
    Table(
        "omp_regions",
        "parallel and teams regions of OpenMP, each time that one was met",
        _columns("""
process       UINTEGER  id     process
thread        UINTEGER  id     thread that met it
seq           UINTEGER  id     number of its event in that thread
site          UINTEGER  id     its place in the code (sites.id)
function      VARCHAR   text   function that it is in; of one without a name its file and offset
source        VARCHAR   text   source file and line, in a kernel of OCCA those of the kernel; empty: not known
kind          VARCHAR   text   parallel, parallel loop SCHEDULE, parallel sections, teams (combined ones: libgomp only)
runtime       VARCHAR   text   libgomp, ompt (LLVM, Intel, AMD)
requested     UINTEGER  count  threads asked for; 0: not said
threads       UINTEGER  count  threads of the team; 0: not known
start_ns      UBIGINT   ns     begins
end_ns        UBIGINT   ns     ends: all its threads have arrived
parent_thread UINTEGER  id     thread of the region around it; null: none
parent_seq    UINTEGER  id     number of the region around it; null: none
depth         UINTEGER  count  regions around it
run_thread    UINTEGER  id     thread of the OCCA kernel call that it belongs to; null: none
run_seq       UINTEGER  id     number of that call
kernel        UINTEGER  id     OCCA kernel that it belongs to; null: none
target_seq    UINTEGER  id     number of the target construct that it runs in; null: none
"""),
    ),
    Table(
        "omp_threads",
        "what each thread did in each region of OpenMP",
        _columns("""
process       UINTEGER  id     process
region_thread UINTEGER  id     thread that met the region (omp_regions.thread)
region_seq    UINTEGER  id     number of the region (omp_regions.seq)
thread        UINTEGER  id     thread
seq           UINTEGER  id     number of its event in its thread
thread_num    UINTEGER  id     its number in the team
start_ns      UBIGINT   ns     begins
end_ns        UBIGINT   ns     arrives at the barrier at the end of the region
barriers      UBIGINT   count  barriers inside the region
barrier_ns    UBIGINT   ns     waiting there, without the tasks run meanwhile
waits         UBIGINT   count  taskwaits and taskgroups
wait_ns       UBIGINT   ns     waiting there, without the tasks run meanwhile
mutexes       UBIGINT   count  critical sections, locks and ordered regions entered
mutex_ns      UBIGINT   ns     waiting to enter them
worksharing   UBIGINT   count  loops, sections and singles taken part in
tasks         UBIGINT   count  explicit tasks run, with those at the barrier at the end
task_ns       UBIGINT   ns     running them
late_ns       UBIGINT   ns     of it, those at the barrier at the end
join_ns       UBIGINT   ns     waiting at the barrier at the end, without the tasks run meanwhile
"""),
    ),
    Table(
        "omp_targets",
        "target constructs of OpenMP and what they and omp_target_* did on devices (host clock)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
operation    VARCHAR   text   target, target data, …; submit, alloc, free, associate, HtoD, DtoH, DtoD, HtoH
site         UINTEGER  id     place in the code (sites.id)
function     VARCHAR   text   function that it is in; of one without a name its file and offset
source       VARCHAR   text   source file and line; empty: not known
device_num   INTEGER   id     device by its number in OpenMP; -1: the default one
bytes        UBIGINT   bytes  allocated or moved
mapped_to    UBIGINT   bytes  libgomp: of the map clauses to the device
mapped_from  UBIGINT   bytes  libgomp: of the map clauses from the device
start_ns     UBIGINT   ns     begins
end_ns       UBIGINT   ns     ends
target_seq   UINTEGER  id     number of the construct that it is part of, same thread; null: none
run_seq      UINTEGER  id     number of the OCCA kernel call that it belongs to, same thread; null: none
"""),
    ),
    Table(
        "sycl_calls",
        "commands that SYCL's runtime handed to its backend, allocations of unified memory, waits (host clock)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
operation    VARCHAR   text   submit (a command), malloc, free, wait
command      UBIGINT   number number of the command in its process; null: no command
name         VARCHAR   text   of a command its kernel or operation, as the runtime calls it
function     VARCHAR   text   function of the program; empty: not known
source       VARCHAR   text   source file and line; empty: compiled without code locations
sycl_queue   UBIGINT   number number of the queue of SYCL in its process; null: not known
created_ns   UBIGINT   ns     the program submitted the command; null: not known
start_ns     UBIGINT   ns     begins
end_ns       UBIGINT   ns     ends
last_seq     UINTEGER  id     of a command, the number of the last call that the runtime made for it, same thread
"""),
    ),
    Table(
        "sycl_dependencies",
        "which command of SYCL waits for which",
        _columns("""
process      UINTEGER  id     process
command      UBIGINT   number command (sycl_calls.command)
after        UBIGINT   number command that it waits for
"""),
    ),
    Table(
        "mpi_ranks",
        "who a process is in MPI, as MPI says it",
        _columns("""
process      UINTEGER  id     process
rank         INTEGER   rank   in MPI_COMM_WORLD; of a job that ran at the same time as one with the same ranks, counted on from those
first        INTEGER   rank   number of the first rank of its MPI_COMM_WORLD: 0, or where that counting begins
size         INTEGER   count  ranks in it
library      VARCHAR   text   first line of MPI_Get_library_version
abi          VARCHAR   text   Open MPI, MPICH, MPI ABI
start_ns     UBIGINT   ns     MPI_Init has returned
end_ns       UBIGINT   ns     MPI_Finalize is called; null: never
"""),
    ),
    Table(
        "mpi_comms",
        "communicators that were used",
        _columns("""
mpi_comm     UINTEGER  id     number of the communicator within the run
process      UINTEGER  id     process
id           UINTEGER  id     number of the communicator within the process
name         VARCHAR   text   its name; null: none
size         INTEGER   count  ranks in it; of an inter-communicator, in the remote group
rank         INTEGER   rank   of this process in it
first_rank   INTEGER   rank   in MPI_COMM_WORLD, of its rank 0; null: not known
inter        BOOLEAN   bool   it is an inter-communicator
handle       UBIGINT   handle the program's handle
"""),
    ),
    Table(
        "mpi_messages",
        "messages sent and received, one-sided transfers and collectives, from their start to their completion",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread of the call that started it
seq          UINTEGER  id     number of that call in its thread
function     VARCHAR   text   that call, where it is complete by itself; null: a request was followed
kind         VARCHAR   text   send, receive, put, get, accumulate, collective, other
state        VARCHAR   text   complete, cancelled, freed (not waited for), unfinished (at MPI_Finalize), failed
mpi_comm     UINTEGER  id     communicator; null: not known, or one-sided
partner      INTEGER   rank   the other side, in MPI_COMM_WORLD; null: not known, or none
nobody       BOOLEAN   bool   the other side is MPI_PROC_NULL
tag          INTEGER   tag    its tag
bytes        UBIGINT   bytes  moved; of a receive, what came
buffer       UBIGINT   addr   address given; null: none
on_device    BOOLEAN   bool   the buffer lies in device memory, as far as that can be known
start_ns     UBIGINT   ns     started
end_ns       UBIGINT   ns     seen to be complete
"""),
    ),
    Table(
        "python_calls",
        "what Python did that is not a traced API: its start, its imports, calls into it, functions",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
number       UINTEGER  id     its number in the process, counted at its start
parent       UINTEGER  id     number of the one around it in its thread (around an import: of an import, if any); null: none
kind         VARCHAR   text   start, run, import, border (a call from C), function, resumption (of a generator), finalize
failed       BOOLEAN   bool   it ended by an exception
depth        UINTEGER  count  how many are around it in its thread
name         VARCHAR   text   module, function or program
source       VARCHAR   text   source file; empty: not known
line         UINTEGER  line   first line of the function in it; 0: not known
start_ns     UBIGINT   ns     begins
end_ns       UBIGINT   ns     ends
inner_ns     UBIGINT   ns     of it, in those directly inside; of an import, in imports
"""),
    ),
    Table(
        "python_frames",
        "places in Python code from which traced calls were made (--python lines) or that were sampled (--sample-stacks), each"
        " with the one that called it",
        _columns("""
process      UINTEGER  id     process
id           UINTEGER  id     number of the place on its stack, within the process
parent       UINTEGER  id     number of the place that called it; null: none, or not followed any further
function     VARCHAR   text   function
source       VARCHAR   text   file
line         UINTEGER  line   line in it
part         VARCHAR   text   whose code it is: program, package (an installed one that is the program), library; empty: not recorded
entered      UINTEGER  number how many evaluations of the interpreter, each a function of C, begin with it
"""),
    ),
    Table(
        "python_lines",
        "which place in Python code made which call (--python lines)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread of the call
seq          UINTEGER  id     number of the call in its thread
frame        UINTEGER  id     place (python_frames.id)
"""),
    ),
    Table(
        "python_samples",
        "where the processor time of Python threads went (--python time)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
time_ns      UBIGINT   ns     moment
cpu_ns       UBIGINT   ns     processor time of the thread since the sample before, which this one stands for
part         VARCHAR   text   python (the interpreter), extension (a module in C or a library that came with one), elsewhere
name         VARCHAR   text   the module or library
"""),
    ),
    Table(
        "pools",
        "memory pools of pyopencl and pycuda (--python pools, lines)",
        _columns("""
process      UINTEGER  id     process
id           UINTEGER  id     number of the pool within the process
kind         VARCHAR   text   its class
allocator    VARCHAR   text   class of its allocator; empty: not known
frame        UINTEGER  id     place that made it (python_frames.id); null: not known
"""),
    ),
    Table(
        "pool_blocks",
        "blocks that these pools gave out, to arrays and others",
        _columns("""
process      UINTEGER  id     process
pool         UINTEGER  id     its pool (pools.id)
id           UINTEGER  id     number of the block within the process
thread       UINTEGER  id     thread that asked for it
asked        UBIGINT   bytes  what was asked for
bytes        UBIGINT   bytes  what the pool keeps for it: the size of its bin
memory       UBIGINT   handle handle or address of its memory
reused       BOOLEAN   bool   the pool had it, without an allocation
frame        UINTEGER  id     place that asked for it (python_frames.id); null: not known
start_ns     UBIGINT   ns     given out
end_ns       UBIGINT   ns     given back; null: never
call_ns      UBIGINT   ns     how long it took to get it
used_ns      UBIGINT   ns     the last kernel, copy or fill that used it ended; null: none known (--python lines)
uses         UBIGINT   count  kernels, copies and fills that used it; null: not known
"""),
    ),
    Table(
        "pool_sizes",
        "what these pools have, in use or kept, at every moment at which a block was given out or memory given back to the driver",
        _columns("""
process      UINTEGER  id     process
pool         UINTEGER  id     pool (pools.id)
time_ns      UBIGINT   ns     moment
bytes        UBIGINT   bytes  what it has
"""),
    ),
    Table(
        "python_builds",
        "programs that pyopencl and pycuda made of source (--python pools, lines)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
library      VARCHAR   text   pyopencl, pycuda
kernels      VARCHAR   text   kernels in the source
source       VARCHAR   text   SHA-256 of the source, the first 16 digits
result       VARCHAR   text   built, cached (the library's cache had it), uncached (built, that cache was not asked), failed
driver_cached BOOLEAN  bool   the driver's own cache had it (PoCL's); null: not known
frame        UINTEGER  id     place that asked for it (python_frames.id); null: not known
start_ns     UBIGINT   ns     begins
end_ns       UBIGINT   ns     ends
"""),
    ),
    Table(
        "messages",
        "what the program logged (--python logging)",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the record in its thread
time_ns      UBIGINT   ns     moment
level        UINTEGER  number 10 DEBUG, 20 INFO, 30 WARNING, 40 ERROR, 50 CRITICAL, or one of the program's own
level_name   VARCHAR   text   its name
logger       VARCHAR   text   logger
source       VARCHAR   text   file
line         UINTEGER  line   line in it
function     VARCHAR   text   function
text         VARCHAR   text   message
"""),
    ),
    Table(
        "call_stats",
        "statistics of the calls per thread and function, from the events and from the tallies",
        _columns(
            """
process      UINTEGER  id     process
thread       UINTEGER  id     thread
api          VARCHAR   text   API
function     VARCHAR   text   function
source       VARCHAR   text   event: from one event per call; tally: counted in the process
"""
            + _STATS.lstrip("\n")
        ),
    ),
    Table(
        "call_hist",
        "histograms of the durations, 64 buckets per octave",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
api          VARCHAR   text   API
function     VARCHAR   text   function
value_ns     DOUBLE    ns     middle of the bucket
calls        UBIGINT   count  calls in it
"""),
    ),
    Table(
        "unfinished",
        "blocking calls that never returned",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread
api          VARCHAR   text   API
function     VARCHAR   text   function
start_ns     UBIGINT   ns     call begins
"""),
    ),
    Table(
        "host_clocks",
        "how far the clock of each host is ahead of the first one's (only in runs of several hosts); all times of the other"
        " tables are shown on the clock of the first",
        _columns("""
trace           VARCHAR  text    folder of the host's trace
ahead_ns        DOUBLE   ns      how far it is ahead at since_ns
drift           DOUBLE   number  nanoseconds gained per nanosecond
since_ns        BIGINT   ns      moment, by its own clock, for which ahead_ns is stated
uncertainty_ns  DOUBLE   ns      the truth is at most so far away; null: nothing but the wall clocks is known
edges           UBIGINT  count   messages and collectives behind it
"""),
    ),
    Table(
        "losses",
        "threads of which events are missing",
        _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
expected     UBIGINT   count  events that the thread wrote
seen         UBIGINT   count  events that are in the trace
unfinished   UBIGINT   count  numbers taken by blocking calls that never returned
lost         UBIGINT   count  events lost
"""),
    ),
)

# Columns that are moments by the host's clock, and such that are lengths of time or by another clock.
MOMENTS = (
    "start_ns",
    "end_ns",
    "queued_ns",
    "submitted_ns",
    "host_ns",
    "time_ns",
    "mono_ns",
    "first_ns",
    "used_ns",
    "created_ns",
)
NO_MOMENTS = (
    *("total_ns", "mean_ns", "min_ns", "max_ns", "worst_ns", "uncertainty_ns", "value_ns"),
    *("realtime_ns", "ahead_ns", "since_ns", "call_ns", "free_call_ns"),
    *(
        "barrier_ns",
        "wait_ns",
        "mutex_ns",
        "task_ns",
        "late_ns",
        "join_ns",
        "inner_ns",
        "cpu_ns",
        "sampled_ns",
        "lost_ns",
    ),
)

BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}

# Common columns of `tables/calls/<api>.<function>/*.parquet`; the struct `args` follows where there are arguments.
CALLS = Table(
    "calls",
    "every recorded call; one dataset per function, whose arguments are in the struct `args`",
    _columns("""
process      UINTEGER  id     process
thread       UINTEGER  id     thread
seq          UINTEGER  id     number of the call in its thread, counted at entry
start_ns     UBIGINT   ns     call begins
end_ns       UBIGINT   ns     call returns
failed       BOOLEAN   bool   it failed, by the model's failure rule
error        VARCHAR   text   name of the error; null: none
bytes        UBIGINT   bytes  byte count, where the model names one
caller       UBIGINT   handle place in the program (call_sites.address); null: not known
"""),
)


def markdown() -> str:
    """The page docs/schema.md."""
    out = [
        "# Tables of a run",
        "",
        f"Schema version {SCHEMA_VERSION}. Generated by `python -m occatrace.core.schema` from `core/schema.py`; do not edit.",
        "",
        "`RUN/tables/<table>.parquet`, zstd. All times are nanoseconds of the host's CLOCK_MONOTONIC; for wall-clock time",
        "add `processes.realtime_ns - processes.mono_ns`. Numbers of processes, threads, kernels, devices and queues are",
        'unique within the run. `occa_prof query RUN "SELECT …"` and `occatrace.open(RUN).sql(…)` see these tables.',
        "",
        "The single calls lie in `RUN/tables/calls/<api>.<function>/*.parquet`, written when they are first asked for. In SQL",
        "they are the view `calls` (with the columns `api` and `function` in front), and one view per function, for instance",
        '`"opencl.clEnqueueWriteBuffer"`, in which the struct `args` has the typed arguments: `args.size`.',
        "",
    ]
    out += ["## Versions", ""]
    out += [f"- {number}: {what}." for number, what in sorted(VERSIONS.items(), reverse=True)]
    out += [
        "",
        "Tables of an older version are made again from the trace at the next look; where the trace is gone they are read as far",
        "as they go: what they lack is empty, and the reports say which version made them. Newer ones are refused, with the",
        "version of occatrace that made them (`tables/tables.json`).",
        "",
    ]
    for table in (*TABLES, CALLS):
        out += [f"## {table.name}", "", table.help[0].upper() + table.help[1:] + ".", ""]
        out += ["| column | type | unit | |", "|---|---|---|---|"]
        out += [f"| `{c.name}` | {c.type} | {c.unit} | {c.help} |" for c in table.columns]
        out += [""]
    return "\n".join(out)


if __name__ == "__main__":
    print(markdown(), end="")
