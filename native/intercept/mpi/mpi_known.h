// Which MPI it is, and what is known of communicators, windows, types, threads and requests.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi_calls.h"
#include "mpi_events.h"
#include "occatrace_core.h"

namespace {

using namespace occatrace::mpi;

constexpr int kCalls = OCCATRACE_MPI_COUNT;
using Word = intptr_t;

const occatrace_mpi_events *events;
uint8_t levels[kCalls];
bool only_counted[kCalls];  // nothing has to be known of these but how long they took
uint32_t first_tally;
bool follow;                // requests, communicators and types are followed: some events carry what they tell
void *original[2 * kCalls]; // MPI_x, PMPI_x

// ---- which MPI ----

// What the headers of an MPI say, as far as a wrapper has to know it.
struct Abi {
  const char *name;
  bool int_handles;
  uint8_t status_size, source_at, tag_at;
  int any_source, proc_null, root, cart, graph, dist_graph;
  Word in_place, status_ignore;
  Word comm_world, comm_null, byte; // of Open MPI these are addresses of objects
};
constexpr Abi kMpich{"MPICH", true, 20, 8, 12, -2, -1, -3, 2, 1, 3, -1, 1, 0x44000000, 0x04000000, 0x4c00010d};
constexpr Abi kOpenMpi{"Open MPI", false, 24, 0, 4, -1, -2, -4, 1, 2, 3, 1, 0, 0, 0, 0};
constexpr Abi kStandard{"MPI ABI", false, 32, 0, 4, -1, -3, -4, 211, 212, 213, 1, 0, 0x101, 0x100, 0x247};
Abi abi;

// The real PMPI functions that are asked.
template <class... A> using Function = int (*)(A...);
struct {
  Function<Word, int *> comm_size, comm_rank, comm_remote_size, comm_test_inter, topo_test, cartdim_get, type_size;
  Function<Word, Word *> comm_group, comm_remote_group, win_get_group, type_size_x;
  Function<Word, int, const int *, Word, int *> translate;
  Function<Word *> group_free;
  Function<Word, char *, int *> comm_get_name;
  Function<Word, int *> group_size, group_rank;
  Function<Word, int, int *> graph_neighbors_count;
  Function<Word, int *, int *, int *> dist_graph_neighbors_count;
  Function<int, char *, int *> error_string;
  Function<const void *, Word, Word *> get_elements_x;
  Function<const void *, Word, int *> get_count;
  Function<const void *, int *> test_cancelled;
  Function<char *, int *> library_version;
  Function<int *> initialized, finalized;
  Function<Word, const char *, Word *> session_group;
} ask;

template <class F> void find(F &function, void *library, const char *name) {
  function = reinterpret_cast<F>(library ? dlsym(library, name) : nullptr);
}

// An ABI is known by the file of its library, or by objects that only one of them has.
void find_mpi(void *library, const char *file) {
  const char *slash = std::strrchr(file, '/');
  if (std::strstr(slash ? slash : file, "mpi_abi")) {
    abi = kStandard;
  } else if (dlsym(library, "ompi_mpi_comm_world")) {
    abi = kOpenMpi;
    // Copied into the executable when that was linked without PIC: the program's own, not the library's.
    const auto object = [&](const char *name) {
      void *found = dlsym(RTLD_DEFAULT, name);
      return reinterpret_cast<Word>(found ? found : dlsym(library, name));
    };
    abi.comm_world = object("ompi_mpi_comm_world");
    abi.comm_null = object("ompi_mpi_comm_null");
    abi.byte = object("ompi_mpi_byte");
  } else {
    abi = kMpich;
  }
  find(ask.comm_size, library, "PMPI_Comm_size");
  find(ask.comm_rank, library, "PMPI_Comm_rank");
  find(ask.comm_remote_size, library, "PMPI_Comm_remote_size");
  find(ask.comm_test_inter, library, "PMPI_Comm_test_inter");
  find(ask.comm_group, library, "PMPI_Comm_group");
  find(ask.comm_remote_group, library, "PMPI_Comm_remote_group");
  find(ask.comm_get_name, library, "PMPI_Comm_get_name");
  find(ask.topo_test, library, "PMPI_Topo_test");
  find(ask.cartdim_get, library, "PMPI_Cartdim_get");
  find(ask.graph_neighbors_count, library, "PMPI_Graph_neighbors_count");
  find(ask.dist_graph_neighbors_count, library, "PMPI_Dist_graph_neighbors_count");
  find(ask.type_size, library, "PMPI_Type_size");
  find(ask.type_size_x, library, "PMPI_Type_size_x");
  if (!ask.type_size_x) find(ask.type_size_x, library, "PMPI_Type_size_c");
  find(ask.win_get_group, library, "PMPI_Win_get_group");
  find(ask.translate, library, "PMPI_Group_translate_ranks");
  find(ask.group_free, library, "PMPI_Group_free");
  find(ask.group_size, library, "PMPI_Group_size");
  find(ask.group_rank, library, "PMPI_Group_rank");
  find(ask.error_string, library, "PMPI_Error_string");
  find(ask.get_elements_x, library, "PMPI_Get_elements_x");
  if (!ask.get_elements_x) find(ask.get_elements_x, library, "PMPI_Get_elements_c");
  find(ask.get_count, library, "PMPI_Get_count");
  find(ask.test_cancelled, library, "PMPI_Test_cancelled");
  find(ask.library_version, library, "PMPI_Get_library_version");
  find(ask.initialized, library, "PMPI_Initialized");
  find(ask.finalized, library, "PMPI_Finalized");
  find(ask.session_group, library, "PMPI_Group_from_session_pset");
}

uint64_t handle_of(Word word) { return abi.int_handles ? static_cast<uint32_t>(word) : static_cast<uint64_t>(word); }
uint64_t handle_at(Word pointer, int64_t index = 0) {
  if (pointer == 0) return 0;
  return abi.int_handles ? reinterpret_cast<const uint32_t *>(pointer)[index]
                         : static_cast<uint64_t>(reinterpret_cast<const Word *>(pointer)[index]);
}

// ---- what is known of communicators, windows and types ----

constexpr int kUnknown = -1, kNobody = -2; // in place of a rank in MPI_COMM_WORLD

std::atomic<bool> usable{false}; // between MPI_Init and MPI_Finalize: MPI may be asked
std::atomic<uint32_t> generation{1}; // of the caches of the threads
Word world_group;
bool world_group_known;

struct Ranks {
  bool is_world = false;
  std::vector<int> in_world;
  int of(int rank) const {
    if (rank == abi.proc_null) return kNobody;
    if (rank < 0) return kUnknown;
    if (is_world) return rank;
    return static_cast<size_t>(rank) < in_world.size() ? in_world[static_cast<size_t>(rank)] : kUnknown;
  }
};

struct Comm {
  uint32_t id = 0;
  int size = 0, rank = -1; // of an inter-communicator, the remote group
  bool inter = false;
  Ranks ranks;
  std::once_flag topology;
  int in = 0, out = 0; // neighbours
};

struct Known {
  std::shared_mutex lock;
  std::unordered_map<uint64_t, Comm *> comms;
  std::unordered_map<uint64_t, Ranks *> windows;
  std::unordered_map<uint64_t, int64_t> types;
  std::unordered_map<uint64_t, Comm *> messages; // of matched probes
  uint32_t comms_announced = 0;
};
// Programs call MPI from destructors: never destroyed.
Known &known = *new Known;

void fill_ranks(Ranks &ranks, Word group) {
  int n = 0;
  if (!world_group_known || ask.group_size(group, &n) != 0 || n <= 0) return;
  std::vector<int> own(static_cast<size_t>(n));
  ranks.in_world.resize(own.size());
  for (int i = 0; i < n; i++) own[static_cast<size_t>(i)] = i;
  if (ask.translate(group, n, own.data(), world_group, ranks.in_world.data()) != 0) ranks.in_world.clear();
  for (int &rank : ranks.in_world)
    if (rank < 0) rank = kUnknown;
}

void announce(const Comm &comm, uint64_t handle) {
  char name[512] = "";
  int length = 0;
  if (ask.comm_get_name) ask.comm_get_name(static_cast<Word>(handle), name, &length);
  const uint32_t text = name[0] ? occatrace_intern(name) : 0;
  occatrace_thread *self = occatrace_self();
  const occatrace_mpi_communicator r{self->tid, occatrace_next_seq(self), static_cast<uint32_t>(getpid()), comm.id, handle, comm.size, comm.rank,
                                     comm.size > 0 ? comm.ranks.of(0) : kUnknown, comm.inter, text};
  events->communicator(&r);
}

// The communicator behind a handle that a call has just used with success.
Comm *learn_comm(uint64_t handle) {
  if (!usable || handle == handle_of(abi.comm_null)) return nullptr;
  {
    const std::shared_lock<std::shared_mutex> guard(known.lock);
    const auto found = known.comms.find(handle);
    if (found != known.comms.end()) return found->second;
  }
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  Comm *&comm = known.comms[handle];
  if (comm) return comm;
  comm = new Comm;
  comm->id = ++known.comms_announced;
  const Word c = static_cast<Word>(handle);
  int inter = 0;
  ask.comm_rank(c, &comm->rank);
  ask.comm_test_inter(c, &inter);
  comm->inter = inter != 0;
  (inter ? ask.comm_remote_size : ask.comm_size)(c, &comm->size);
  comm->ranks.is_world = handle == handle_of(abi.comm_world);
  Word group = 0;
  if (!comm->ranks.is_world && (inter ? ask.comm_remote_group : ask.comm_group)(c, &group) == 0) {
    fill_ranks(comm->ranks, group);
    ask.group_free(&group);
  }
  announce(*comm, handle);
  return comm;
}

void forget_comm(uint64_t handle) {
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  const auto found = known.comms.find(handle);
  if (found == known.comms.end()) return;
  // Its requests may still be in flight: the object stays, without what is large.
  std::vector<int>().swap(found->second->ranks.in_world);
  known.comms.erase(found);
  generation.fetch_add(1, std::memory_order_release);
}

void rename_comm(uint64_t handle) {
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  const auto found = known.comms.find(handle);
  if (found != known.comms.end()) announce(*found->second, handle);
}

const Ranks *learn_window(uint64_t handle) {
  if (!usable) return nullptr;
  {
    const std::shared_lock<std::shared_mutex> guard(known.lock);
    const auto found = known.windows.find(handle);
    if (found != known.windows.end()) return found->second;
  }
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  Ranks *&ranks = known.windows[handle];
  if (ranks) return ranks;
  ranks = new Ranks;
  Word group = 0;
  if (ask.win_get_group(static_cast<Word>(handle), &group) == 0) {
    fill_ranks(*ranks, group);
    ask.group_free(&group);
  }
  return ranks;
}

int64_t learn_type(uint64_t handle) {
  {
    const std::shared_lock<std::shared_mutex> guard(known.lock);
    const auto found = known.types.find(handle);
    if (found != known.types.end()) return found->second;
  }
  int64_t size = 0;
  if (ask.type_size_x) {
    Word large = 0;
    if (ask.type_size_x(static_cast<Word>(handle), &large) == 0) size = large;
  } else {
    int small = 0;
    if (ask.type_size(static_cast<Word>(handle), &small) == 0) size = small;
  }
  size = std::max<int64_t>(size, 0);
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  known.types[handle] = size;
  return size;
}

void forget_type(uint64_t handle) {
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  if (known.types.erase(handle)) generation.fetch_add(1, std::memory_order_release);
}

void forget_window(uint64_t handle) {
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  const auto found = known.windows.find(handle);
  if (found == known.windows.end()) return;
  delete found->second;
  known.windows.erase(found);
}

// ---- threads ----

// From calloc; the core frees it with the thread.
struct State {
  const char *frame; // where the stack stood when the outermost call came; a call below it is inside that call
  uint32_t generation;
  uint64_t comm_handle;
  Comm *comm;
  struct {
    uint64_t handle;
    int64_t size;
  } types[8];
  uint64_t handles[16]; // of the requests of a wait; longer lists come from malloc
  alignas(8) char statuses[16 * 32];
};

State *state_of(occatrace_thread *self) {
  if (__builtin_expect(self->mpi == nullptr, 0)) {
    auto *state = static_cast<State *>(std::calloc(1, sizeof(State)));
    self->mpi = state;
  }
  return static_cast<State *>(self->mpi);
}

void check_generation(State *state) {
  const uint32_t now = generation.load(std::memory_order_acquire);
  if (__builtin_expect(state->generation == now, 1)) return;
  state->generation = now;
  state->comm = nullptr;
  for (auto &type : state->types) type = {0, -1};
}

Comm *comm_of(State *state, uint64_t handle) {
  check_generation(state);
  if (state->comm && state->comm_handle == handle) return state->comm;
  state->comm = learn_comm(handle);
  state->comm_handle = handle;
  return state->comm;
}

int64_t size_of(State *state, uint64_t handle) {
  check_generation(state);
  auto &type = state->types[(handle >> 4 ^ handle) % std::size(state->types)];
  if (type.handle != handle || type.size < 0) type = {handle, learn_type(handle)};
  return type.size;
}

// ---- requests ----

struct Request {
  uint8_t kind = 0;
  bool persistent = false, active = true, cancelled = false;
  uint32_t tid = 0, seq = 0;
  uint64_t begin = 0, bytes = 0, buffer = 0;
  int partner = kUnknown, tag = 0;
  Comm *comm = nullptr;
};

enum : uint8_t {
  Send = 1,
  Receive = 2,
  Put = 3,
  Get = 4,
  Accumulate = 5,
  Collective = 6,
  Other = 7,
};
enum : uint8_t {
  Complete = 0,
  Cancelled = 1,
  Freed = 2,
  Unfinished = 3,
  Failed = 4,
};

// By handle. MPIs give many requests that are complete at once the same handle: then they come out as they went in.
class Requests {
 public:
  void add(uint64_t handle, const Request &request) {
    Shard &shard = of(handle);
    const std::lock_guard<std::mutex> guard(shard.lock);
    const auto [place, fresh] = shard.first.try_emplace(handle, request);
    if (!fresh) shard.more[handle].push_back(request);
  }
  // The request that completed; one that is persistent stays, inactive.
  bool complete(uint64_t handle, Request &out) {
    Shard &shard = of(handle);
    const std::lock_guard<std::mutex> guard(shard.lock);
    const auto found = shard.first.find(handle);
    if (found == shard.first.end() || !found->second.active) return false;
    out = found->second;
    if (found->second.persistent) {
      found->second.active = found->second.cancelled = false;
    } else {
      next(shard, found);
    }
    return true;
  }
  bool remove(uint64_t handle, Request &out) {
    Shard &shard = of(handle);
    const std::lock_guard<std::mutex> guard(shard.lock);
    const auto found = shard.first.find(handle);
    if (found == shard.first.end()) return false;
    out = found->second;
    next(shard, found);
    return true;
  }
  template <class Change> bool change(uint64_t handle, Change change) {
    Shard &shard = of(handle);
    const std::lock_guard<std::mutex> guard(shard.lock);
    const auto found = shard.first.find(handle);
    if (found == shard.first.end()) return false;
    change(found->second);
    return true;
  }
  template <class Take> void clear(Take take) {
    for (Shard &shard : shards_) {
      const std::lock_guard<std::mutex> guard(shard.lock);
      for (const auto &entry : shard.first) take(entry.second);
      for (const auto &entry : shard.more)
        for (const Request &request : entry.second) take(request);
      shard.first.clear();
      shard.more.clear();
    }
  }

 private:
  struct Shard {
    std::mutex lock;
    std::unordered_map<uint64_t, Request> first;
    std::unordered_map<uint64_t, std::deque<Request>> more;
  };
  static void next(Shard &shard, std::unordered_map<uint64_t, Request>::iterator found) {
    const auto more = shard.more.find(found->first);
    if (more == shard.more.end()) {
      shard.first.erase(found);
      return;
    }
    found->second = more->second.front();
    more->second.pop_front();
    if (more->second.empty()) shard.more.erase(more);
  }
  Shard &of(uint64_t handle) { return shards_[(handle >> 7 ^ handle) % shards_.size()]; }
  std::array<Shard, 32> shards_;
};
Requests &requests = *new Requests;

void write_message(const Request &r, uint8_t state) {
  occatrace_thread *self = occatrace_self();
  const occatrace_mpi_message m{self->tid, occatrace_next_seq(self), r.kind, state, r.tid, r.seq, r.begin, r.bytes,
                                r.partner, r.tag, r.comm ? r.comm->id : 0, r.buffer};
  events->message(&m);
}

}  // namespace
