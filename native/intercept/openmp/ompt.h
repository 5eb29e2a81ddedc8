// OMPT as the OpenMP specification 5.1 defines it: the part that is used here. compilers without OMPT (gcc) bring no header.
#ifndef OCCATRACE_OMPT_H
#define OCCATRACE_OMPT_H
#include <cstddef>
#include <cstdint>

namespace ompt {

union Data {
  uint64_t value;
  void *pointer;
};
enum Endpoint {
  ScopeBegin = 1,
  ScopeEnd = 2,
  ScopeBeginEnd = 3,
};
enum Callback {
  ParallelBegin = 3,
  ParallelEnd = 4,
  TaskCreate = 5,
  TaskSchedule = 6,
  ImplicitTask = 7,
  DeviceInitialize = 12,
  MutexReleased = 17,
  Work = 20,
  SyncRegion = 23,
  MutexAcquire = 26,
  MutexAcquired = 27,
  TargetEmi = 33,
  TargetDataOpEmi = 34,
  TargetSubmitEmi = 35
};
enum TaskFlag : unsigned {
  TaskInitial = 1,
  TaskExplicit = 4,
  TaskTarget = 8,
  TaskTaskwait = 0x10,
  TaskUndeferred = 0x08000000,
};
enum TaskStatus {
  TaskComplete = 1,
  TaskCancel = 3,
  TaskDetach = 4,
  TaskEarlyFulfill = 5,
  TaskLateFulfill = 6,
  TaskwaitComplete = 8,
};
enum SyncRegion {
  Barrier = 1,
  BarrierImplicit = 2,
  BarrierExplicit = 3,
  BarrierImplementation = 4,
  Taskwait = 5,
  Taskgroup = 6,
  Reduction = 7,
  BarrierImplicitWorkshare = 8,
  BarrierImplicitParallel = 9,
  BarrierTeams = 10
};
enum Work {
  WorkLoop = 1,
  WorkSections = 2,
  WorkSingleExecutor = 3,
  WorkSingleOther = 4,
  WorkWorkshare = 5,
  WorkDistribute = 6,
  WorkTaskloop = 7,
  WorkScope = 8,
  WorkLoopStatic = 10,
  WorkLoopDynamic = 11,
  WorkLoopGuided = 12,
  WorkLoopOther = 13
};
enum Mutex {
  MutexLock = 1,
  MutexTestLock = 2,
  MutexNestLock = 3,
  MutexTestNestLock = 4,
  MutexCritical = 5,
  MutexAtomic = 6,
  MutexOrdered = 7,
};
enum Target {
  TargetRegion = 1,
  TargetEnterData = 2,
  TargetExitData = 3,
  TargetUpdate = 4,
  TargetNowait = 8,
};
enum DataOp {
  Alloc = 1,
  ToDevice = 2,
  FromDevice = 3,
  Delete = 4,
  Associate = 5,
  Disassociate = 6,
  Async = 16,
};
constexpr unsigned ParallelLeague = 0x40000000;

using Function = void (*)();
using Lookup = Function (*)(const char *name);
using SetCallback = int (*)(int which, Function callback);
using Initialize = int (*)(Lookup lookup, int initial_device, Data *tool);
using Finalize = void (*)(Data *tool);
struct StartToolResult {
  Initialize initialize;
  Finalize finalize;
  Data tool;
};

} // namespace ompt
#endif
