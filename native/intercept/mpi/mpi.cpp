// MPI: one wrapper for every ABI. Arguments pass through as machine words (handles are pointers in Open MPI and the MPI ABI,
// ints in MPICH; both travel in integer registers), and what they mean is looked up in the generated table of calls. Both
// MPI_x and PMPI_x are hooked, because Open MPI's Fortran calls the latter; what is called inside a call is not recorded.
// MPI is asked about a handle only after the program's own call with it has succeeded: an error of the program stays its own.
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
  const occatrace_mpi_communicator r{self->tid, self->next_seq++, static_cast<uint32_t>(getpid()), comm.id, handle, comm.size, comm.rank,
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

enum : uint8_t { Send = 1, Receive = 2, Put = 3, Get = 4, Accumulate = 5, Collective = 6, Other = 7 };
enum : uint8_t { Complete = 0, Cancelled = 1, Freed = 2, Unfinished = 3, Failed = 4 };

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
  const occatrace_mpi_message m{self->tid, self->next_seq++, r.kind, state, r.tid, r.seq, r.begin, r.bytes,
                                r.partner, r.tag, r.comm ? r.comm->id : 0, r.buffer};
  events->message(&m);
}

// ---- a call in flight ----

struct InFlight {
  const Call &call;
  const int function;
  const Word *args;
  occatrace_thread *self;
  State *state;
  uint8_t level;
  uint32_t seq = 0;
  uint64_t begin = 0; // ns; ticks at level tally
  int ret = 0;
  // Waits: what the requests were, and where the statuses are, the program's or ours.
  int64_t count = 0;
  const uint64_t *handles = nullptr;
  const char *statuses = nullptr;
  bool own_statuses = false, own_handles = false;

  bool ok() const { return ret == 0; }
  Word word(int8_t place) const { return place < 0 ? 0 : args[place]; }
  int number(int8_t place, int otherwise = 0) const { return place < 0 ? otherwise : static_cast<int>(args[place]); }
  bool wide(int8_t place) const { return place >= 0 && (call.wide >> place & 1); }
  int64_t amount(int8_t place, int64_t otherwise = 0) const {
    return place < 0 ? otherwise : wide(place) ? static_cast<int64_t>(args[place]) : static_cast<int>(args[place]);
  }
  // Element of an array of counts.
  int64_t element(int8_t place, int64_t index) const {
    if (place < 0 || args[place] == 0) return 0;
    return wide(place) ? reinterpret_cast<const int64_t *>(args[place])[index] : reinterpret_cast<const int *>(args[place])[index];
  }
  int64_t sum(int8_t place, int64_t n) const {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) total += element(place, i);
    return total;
  }
  int64_t size(int8_t type) const { return type < 0 ? 0 : size_of(state, handle_of(args[type])); }
  uint64_t bytes(int64_t n, int8_t type) const { return n <= 0 ? 0 : static_cast<uint64_t>(n * size(type)); }
  int64_t sum_of_types(int8_t counts, int8_t types, int64_t n) const {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
      const int64_t elements = element(counts, i);
      if (elements > 0) total += elements * size_of(state, handle_at(args[types], i));
    }
    return total;
  }
  Comm *comm() const { return call.comm < 0 || call.comm == call.new_comm ? nullptr : comm_of(state, handle_of(args[call.comm])); }
  uint64_t new_request() const { return call.request < 0 ? 0 : handle_at(args[call.request]); }
};

template <class T> const T &at(const char *base, size_t offset) { return *reinterpret_cast<const T *>(base + offset); }

struct Arrived {
  int source = kUnknown, tag = 0;
  uint64_t bytes = 0;
};

// What a status tells of a message.
Arrived read_status(const char *status) {
  Arrived out;
  out.source = at<int>(status, abi.source_at);
  out.tag = at<int>(status, abi.tag_at);
  if (abi.int_handles) {
    // MPICH: the low half, then the high half above the bit that says "cancelled".
    out.bytes = at<uint32_t>(status, 0) | static_cast<uint64_t>(at<uint32_t>(status, 4) >> 1) << 32;
  } else if (abi.source_at == 0 && abi.status_size == 24) {
    out.bytes = at<uint64_t>(status, 16); // Open MPI
  } else if (ask.get_elements_x) {
    Word n = 0;
    if (ask.get_elements_x(status, abi.byte, &n) == 0 && n > 0) out.bytes = static_cast<uint64_t>(n);
  } else {
    int n = 0;
    if (ask.get_count(status, abi.byte, &n) == 0 && n > 0) out.bytes = static_cast<uint64_t>(n);
  }
  if (out.source == abi.proc_null) out.bytes = 0;
  return out;
}

template <class Event> Event head(const InFlight &f) {
  Event e{};
  e.tid = f.self->tid;
  e.seq = f.seq;
  e.start = f.begin;
  return e;
}

// Functions of one class have events of one layout; each has its own writer.
template <class Event> void write(const InFlight &f, const Event &e) {
  using Writer = void (*)(const Event *);
  (*reinterpret_cast<const Writer *>(reinterpret_cast<const char *>(events) + f.call.emit))(&e);
}

uint32_t id_of(const Comm *comm) { return comm ? comm->id : 0; }

Request new_request(const InFlight &f, uint8_t kind, uint64_t bytes, int partner, int tag, Comm *comm, uint64_t buffer) {
  Request r;
  r.kind = kind;
  r.tid = f.self->tid;
  r.seq = f.level == OCCATRACE_EVENT ? f.seq : OCCATRACE_NO_RUN;
  r.begin = f.level == OCCATRACE_EVENT ? f.begin : occatrace_now();
  r.bytes = bytes;
  r.partner = partner;
  r.tag = tag;
  r.comm = comm;
  r.buffer = buffer;
  return r;
}

// ---- collectives ----

struct Moved {
  uint64_t sent = 0, received = 0;
  int root = kUnknown;
};

void learn_topology(Comm *comm, Word handle) {
  std::call_once(comm->topology, [&] {
    int kind = 0, weighted = 0;
    if (ask.topo_test(handle, &kind) != 0) return;
    if (kind == abi.cart) {
      int dimensions = 0;
      ask.cartdim_get(handle, &dimensions);
      comm->in = comm->out = 2 * dimensions;
    } else if (kind == abi.graph) {
      ask.graph_neighbors_count(handle, comm->rank, &comm->in);
      comm->out = comm->in;
    } else if (kind == abi.dist_graph) {
      ask.dist_graph_neighbors_count(handle, &comm->in, &comm->out, &weighted);
    }
  });
}

// With MPI_IN_PLACE a rank's own part does not move.
Moved moved(const InFlight &f, Comm *comm) {
  Moved m;
  if (!comm) return m;
  const Call &c = f.call;
  const int64_t n = comm->size, self = comm->rank;
  const int given = f.number(c.root, -1);
  const bool root = c.root >= 0 && (comm->inter ? given == abi.root : given == self);
  const bool aside = c.root >= 0 && comm->inter && given == abi.proc_null; // neither root nor in the other group
  const bool leaf = !aside && !(comm->inter && root);                      // gives or gets one part
  if (c.root >= 0) m.root = comm->inter && given < 0 ? kUnknown : comm->ranks.of(given);
  const bool in_place = f.word(c.buffer) == abi.in_place, received_in_place = f.word(c.received_buffer) == abi.in_place;
  const auto one = [&] { return f.bytes(f.amount(c.count), c.datatype); };
  const auto received_one = [&] { return f.bytes(f.amount(c.received_count), c.received_datatype); };
  switch (c.shape) {
    case Shape::bcast:
      (root ? m.sent : m.received) = aside ? 0 : one();
      break;
    case Shape::gather:
      if (leaf && !in_place) m.sent = one();
      if (root) m.received = received_one() * static_cast<uint64_t>(n - in_place);
      break;
    case Shape::gatherv:
      if (leaf && !in_place) m.sent = one();
      if (root) m.received = f.bytes(f.sum(c.received_count, n) - (in_place ? f.element(c.received_count, self) : 0), c.received_datatype);
      break;
    case Shape::scatter:
      if (root) m.sent = one() * static_cast<uint64_t>(n - received_in_place);
      if (leaf && !received_in_place) m.received = received_one();
      break;
    case Shape::scatterv:
      if (root) m.sent = f.bytes(f.sum(c.count, n) - (received_in_place ? f.element(c.count, self) : 0), c.datatype);
      if (leaf && !received_in_place) m.received = received_one();
      break;
    case Shape::allgather:
      m.sent = in_place ? received_one() : one();
      m.received = received_one() * static_cast<uint64_t>(n - in_place);
      break;
    case Shape::allgatherv:
      m.sent = in_place ? f.bytes(f.element(c.received_count, self), c.received_datatype) : one();
      m.received = f.bytes(f.sum(c.received_count, n) - (in_place ? f.element(c.received_count, self) : 0), c.received_datatype);
      break;
    case Shape::alltoall:
      m.received = received_one() * static_cast<uint64_t>(n);
      m.sent = in_place ? m.received : one() * static_cast<uint64_t>(n);
      break;
    case Shape::alltoallv:
      m.received = f.bytes(f.sum(c.received_count, n), c.received_datatype);
      m.sent = in_place ? m.received : f.bytes(f.sum(c.count, n), c.datatype);
      break;
    case Shape::alltoallw:
      m.received = static_cast<uint64_t>(f.sum_of_types(c.received_count, c.received_datatype, n));
      m.sent = in_place ? m.received : static_cast<uint64_t>(f.sum_of_types(c.count, c.datatype, n));
      break;
    case Shape::reduce:
      if (leaf) m.sent = one();
      if (root) m.received = one();
      break;
    case Shape::allreduce:
    case Shape::scan:
      m.sent = m.received = one();
      break;
    case Shape::exscan:
      m.sent = one();
      if (self > 0) m.received = m.sent;
      break;
    case Shape::reduce_scatter:
      m.sent = f.bytes(f.sum(c.received_count, n), c.datatype);
      m.received = f.bytes(f.element(c.received_count, self), c.datatype);
      break;
    case Shape::reduce_scatter_block:
      m.received = f.bytes(f.amount(c.received_count), c.datatype);
      m.sent = m.received * static_cast<uint64_t>(n);
      break;
    case Shape::neighbor_allgather:
    case Shape::neighbor_allgatherv:
    case Shape::neighbor_alltoall:
    case Shape::neighbor_alltoallv:
    case Shape::neighbor_alltoallw:
      learn_topology(comm, f.word(c.comm));
      if (c.shape == Shape::neighbor_alltoallw) {
        m.sent = static_cast<uint64_t>(f.sum_of_types(c.count, c.datatype, comm->out));
        m.received = static_cast<uint64_t>(f.sum_of_types(c.received_count, c.received_datatype, comm->in));
      } else {
        const bool lists = c.shape == Shape::neighbor_alltoallv;
        const bool gathers = c.shape == Shape::neighbor_allgather || c.shape == Shape::neighbor_allgatherv;
        m.sent = lists ? f.bytes(f.sum(c.count, comm->out), c.datatype) : one() * static_cast<uint64_t>(gathers ? 1 : comm->out);
        m.received = lists || c.shape == Shape::neighbor_allgatherv ? f.bytes(f.sum(c.received_count, comm->in), c.received_datatype)
                                                                    : received_one() * static_cast<uint64_t>(comm->in);
      }
      break;
    default:
      break;
  }
  return m;
}

// ---- what is done after a call, by class ----

void finish_send(InFlight &f) {
  auto e = head<occatrace_mpi_call_send>(f);
  Comm *comm = f.ok() ? f.comm() : nullptr;
  const int dest = f.number(f.call.partner);
  e.buffer = static_cast<uint64_t>(f.word(f.call.buffer));
  e.count = f.amount(f.call.count);
  e.bytes = !f.ok() || dest == abi.proc_null ? 0 : f.bytes(e.count, f.call.datatype);
  e.partner = comm ? comm->ranks.of(dest) : kUnknown;
  e.tag = f.number(f.call.tag);
  e.comm = id_of(comm);
  e.ret = f.ret;
  write(f, e);
}

void finish_isend(InFlight &f) {
  auto e = head<occatrace_mpi_call_isend>(f);
  Comm *comm = f.ok() ? f.comm() : nullptr;
  const int dest = f.number(f.call.partner);
  e.buffer = static_cast<uint64_t>(f.word(f.call.buffer));
  e.count = f.amount(f.call.count);
  e.bytes = !f.ok() || dest == abi.proc_null ? 0 : f.bytes(e.count, f.call.datatype);
  e.partner = comm ? comm->ranks.of(dest) : kUnknown;
  e.tag = f.number(f.call.tag);
  e.comm = id_of(comm);
  e.request = f.ok() ? f.new_request() : 0;
  e.ret = f.ret;
  if (f.ok()) requests.add(e.request, new_request(f, Send, e.bytes, e.partner, e.tag, comm, e.buffer));
  if (f.level == OCCATRACE_EVENT) write(f, e);
}

Comm *comm_of_message(uint64_t message, bool forget) {
  const std::unique_lock<std::shared_mutex> guard(known.lock);
  const auto found = known.messages.find(message);
  if (found == known.messages.end()) return nullptr;
  Comm *comm = found->second;
  if (forget) known.messages.erase(found);
  return comm;
}

void finish_recv(InFlight &f) {
  auto e = head<occatrace_mpi_call_recv>(f);
  e.buffer = static_cast<uint64_t>(f.word(f.call.buffer));
  e.count = f.amount(f.call.count);
  e.partner = kUnknown;
  e.tag = f.number(f.call.tag);
  e.ret = f.ret;
  if (f.ok()) {
    Comm *comm = f.call.message >= 0 ? comm_of_message(f.handles[0], true) : f.comm();
    const Arrived arrived = read_status(f.statuses);
    e.bytes = arrived.bytes;
    e.tag = arrived.tag;
    e.partner = comm ? comm->ranks.of(arrived.source) : arrived.source == abi.proc_null ? kNobody : kUnknown;
    e.comm = id_of(comm);
  }
  write(f, e);
}

void finish_posted(InFlight &f) {
  auto e = head<occatrace_mpi_call_posted>(f);
  const Call &c = f.call;
  e.buffer = static_cast<uint64_t>(f.word(c.buffer));
  e.count = f.amount(c.count);
  e.partner = kUnknown;
  e.tag = f.number(c.tag);
  e.ret = f.ret;
  if (f.ok()) {
    Comm *comm = c.message >= 0 ? comm_of_message(f.handles[0], true) : f.comm();
    const bool sends = c.shape == Shape::send_init, receives = c.shape == Shape::recv || c.shape == Shape::recv_init;
    uint8_t kind = sends ? Send : receives ? Receive : Collective;
    int other = abi.any_source;
    if (sends || receives) {
      other = f.number(sends ? c.partner : c.source, abi.any_source);
      e.capacity = f.bytes(e.count * std::max(1, f.number(c.partitions, 1)), c.datatype);
      if (other == abi.proc_null) e.capacity = 0;
    } else {
      const Moved m = moved(f, comm);
      e.capacity = m.sent + m.received;
      e.count = c.count >= 0 && c.shape != Shape::alltoallv && c.shape != Shape::alltoallw && c.shape != Shape::scatterv ? f.amount(c.count) : 0;
    }
    e.partner = comm && (sends || receives) ? comm->ranks.of(other) : kUnknown;
    e.comm = id_of(comm);
    e.request = f.new_request();
    Request r = new_request(f, kind, e.capacity, e.partner, e.tag, comm, e.buffer);
    r.persistent = c.shape != Shape::recv;
    r.active = !r.persistent;
    requests.add(e.request, r);
  }
  if (f.level == OCCATRACE_EVENT) write(f, e);
}

void finish_start(InFlight &f) {
  auto e = head<occatrace_mpi_call_start>(f);
  const int64_t n = f.call.count >= 0 ? f.amount(f.call.count) : 1;
  e.count = n;
  e.ret = f.ret;
  const uint64_t begin = f.level == OCCATRACE_EVENT ? f.begin : occatrace_now();
  if (f.ok())
    for (int64_t i = 0; i < n; i++) {
      const uint64_t handle = handle_at(f.word(f.call.request), i);
      if (n == 1) e.request = handle;
      requests.change(handle, [&](Request &r) {
        r.active = true;
        r.begin = begin;
        r.tid = f.self->tid;
        r.seq = f.level == OCCATRACE_EVENT ? f.seq : OCCATRACE_NO_RUN;
        if (r.kind == Send) e.bytes += r.bytes;
      });
    }
  if (f.level == OCCATRACE_EVENT) write(f, e);
}

// Looks at the statuses of what completed before the call is written, and writes the messages after it.
void finish_complete(InFlight &f) {
  const Call &c = f.call;
  auto e = head<occatrace_mpi_call_complete>(f);
  e.requests = static_cast<uint32_t>(std::max<int64_t>(f.count, 0));
  e.ret = f.ret;
  struct Done {
    Request request;
    uint8_t state;
  };
  Done few[8];
  std::vector<Done> many;
  size_t done = 0;
  const auto complete = [&](int64_t place, int64_t status, bool certain) {
    Request r;
    if (place < 0 || place >= f.count || !requests.complete(f.handles[place], r)) return;
    uint8_t state = certain ? Complete : Failed;
    const char *told = f.statuses ? f.statuses + status * abi.status_size : nullptr;
    int cancelled = 0;
    if (certain && r.cancelled && told && ask.test_cancelled && ask.test_cancelled(told, &cancelled) == 0 && cancelled) {
      state = Cancelled;
      r.bytes = 0;
    } else if (certain && r.kind == Receive && told) {
      const Arrived arrived = read_status(told);
      r.bytes = arrived.bytes;
      r.tag = arrived.tag;
      r.partner = arrived.source == abi.proc_null ? kNobody : r.comm ? r.comm->ranks.of(arrived.source) : kUnknown;
    } else if (!certain) {
      r.bytes = 0;
    }
    if (r.kind == Receive) e.bytes += r.bytes;
    if (done < std::size(few)) few[done] = {r, state};
    else many.push_back({r, state});
    done++;
  };
  const bool flag = c.flag < 0 || (f.word(c.flag) && *reinterpret_cast<const int *>(f.word(c.flag)));
  if (!f.ok()) {
    // Those whose handles are gone have ended; of a wait for all, their statuses say how.
    for (int64_t i = 0; i < f.count; i++) {
      if (handle_at(f.word(c.request), i) == f.handles[i]) continue;
      const char *told = c.shape == Shape::all && f.statuses ? f.statuses + i * abi.status_size : nullptr;
      complete(i, i, told && at<int>(told, abi.tag_at + sizeof(int)) == 0); // MPI_ERROR stands behind MPI_TAG
    }
  } else if (flag) {
    switch (c.shape) {
      case Shape::one:
        complete(0, 0, true);
        break;
      case Shape::all:
        for (int64_t i = 0; i < f.count; i++) complete(i, i, true);
        break;
      case Shape::any:
        if (f.word(c.index)) complete(*reinterpret_cast<const int *>(f.word(c.index)), 0, true);
        break;
      case Shape::some: {
        const int n = f.word(c.completed) ? *reinterpret_cast<const int *>(f.word(c.completed)) : 0;
        for (int i = 0; i < n; i++) complete(reinterpret_cast<const int *>(f.word(c.indices))[i], i, true);
        break;
      }
      default:
        break;
    }
  }
  e.completed = static_cast<uint32_t>(done);
  if (f.level == OCCATRACE_EVENT) write(f, e);
  for (size_t i = 0; i < done; i++) {
    const Done &d = i < std::size(few) ? few[i] : many[i - std::size(few)];
    write_message(d.request, d.state);
  }
}

void finish_request(InFlight &f) {
  if (f.ok()) {
    if (f.call.shape == Shape::cancel) {
      requests.change(f.handles[0], [](Request &r) { r.cancelled = true; });
    } else {
      Request r;
      if (requests.remove(f.handles[0], r) && r.active) write_message(r, Freed);
    }
  }
  if (f.level != OCCATRACE_EVENT) return;
  auto e = head<occatrace_mpi_call_request>(f);
  e.request = f.handles[0];
  e.ret = f.ret;
  write(f, e);
}

void finish_probe(InFlight &f) {
  auto e = head<occatrace_mpi_call_probe>(f);
  const Call &c = f.call;
  const bool there = f.ok() && (c.flag < 0 || (f.word(c.flag) && *reinterpret_cast<const int *>(f.word(c.flag))));
  Comm *comm = f.ok() ? f.comm() : nullptr;
  if (there && c.message >= 0) {
    const std::unique_lock<std::shared_mutex> guard(known.lock);
    known.messages[handle_at(f.word(c.message))] = comm;
  }
  if (f.level != OCCATRACE_EVENT) return;
  e.partner = kUnknown;
  e.tag = f.number(c.tag);
  e.comm = id_of(comm);
  e.ret = f.ret;
  if (there && f.statuses) {
    const Arrived arrived = read_status(f.statuses);
    e.waiting = arrived.bytes;
    e.tag = arrived.tag;
    e.partner = comm ? comm->ranks.of(arrived.source) : kUnknown;
  }
  write(f, e);
}

void finish_sendrecv(InFlight &f) {
  auto e = head<occatrace_mpi_call_sendrecv>(f);
  const Call &c = f.call;
  e.buffer = static_cast<uint64_t>(f.word(c.buffer));
  e.partner = e.source = kUnknown;
  e.tag = f.number(c.tag);
  e.source_tag = f.number(c.received_tag);
  e.ret = f.ret;
  Comm *comm = f.ok() ? f.comm() : nullptr;
  e.comm = id_of(comm);
  if (f.ok()) {
    const int dest = f.number(c.partner);
    e.partner = comm ? comm->ranks.of(dest) : kUnknown;
    e.sent = dest == abi.proc_null ? 0 : f.bytes(f.amount(c.count), c.datatype);
    e.bytes = e.sent;
    if (c.request >= 0) {
      e.request = f.new_request();
      const int source = f.number(c.source);
      e.source = comm ? comm->ranks.of(source) : kUnknown;
      Request r = new_request(f, Other, e.sent, e.partner, e.tag, comm, e.buffer);
      requests.add(e.request, r);
    } else {
      const Arrived arrived = read_status(f.statuses);
      e.bytes += arrived.bytes;
      e.source = comm ? comm->ranks.of(arrived.source) : kUnknown;
      e.source_tag = arrived.tag;
    }
  }
  write(f, e);
}

void finish_collective(InFlight &f) {
  auto e = head<occatrace_mpi_call_collective>(f);
  e.buffer = static_cast<uint64_t>(f.word(f.call.buffer));
  e.root = kUnknown;
  e.ret = f.ret;
  if (f.ok()) {
    Comm *comm = f.comm();
    const Moved m = moved(f, comm);
    e.bytes = m.sent + m.received;
    e.sent = m.sent;
    e.root = m.root;
    e.comm = id_of(comm);
    if (f.call.request >= 0) {
      e.request = f.new_request();
      requests.add(e.request, new_request(f, Collective, e.bytes, kUnknown, 0, comm, e.buffer));
    }
  }
  if (f.level == OCCATRACE_EVENT) write(f, e);
}

void finish_onesided(InFlight &f) {
  auto e = head<occatrace_mpi_call_onesided>(f);
  const Call &c = f.call;
  e.buffer = static_cast<uint64_t>(f.word(c.buffer));
  e.partner = kUnknown;
  e.window = c.window < 0 ? 0 : handle_of(f.word(c.window));
  e.ret = f.ret;
  if (f.ok()) {
    const int target = f.number(c.partner);
    const Ranks *ranks = learn_window(e.window);
    e.partner = ranks ? ranks->of(target) : kUnknown;
    if (target != abi.proc_null) {
      const bool single = c.shape == Shape::fetch_and_op || c.shape == Shape::compare_and_swap;
      e.bytes = single ? 2 * f.bytes(1, c.datatype) : f.bytes(f.amount(c.count), c.datatype);
      if (c.shape == Shape::get_accumulate) e.bytes += f.bytes(f.amount(c.received_count), c.received_datatype);
    }
    if (c.request >= 0) {
      e.request = f.new_request();
      const uint8_t kind = c.shape == Shape::put ? Put : c.shape == Shape::get ? Get : Accumulate;
      requests.add(e.request, new_request(f, kind, e.bytes, e.partner, 0, nullptr, e.buffer));
    }
  }
  if (f.level == OCCATRACE_EVENT) write(f, e);
}

void finish_window(InFlight &f) {
  const Call &c = f.call;
  if (f.level != OCCATRACE_EVENT) return;
  auto e = head<occatrace_mpi_call_window>(f);
  e.partner = kUnknown;
  e.ret = f.ret;
  e.window = c.shape == Shape::make ? (f.ok() ? handle_at(f.word(c.window)) : 0) : c.shape == Shape::free ? f.handles[0] : handle_of(f.word(c.window));
  if (f.ok() && c.rank >= 0 && c.shape == Shape::none) {
    const Ranks *ranks = learn_window(e.window);
    if (ranks) e.partner = ranks->of(f.number(c.rank));
  }
  write(f, e);
}

void finish_file(InFlight &f) {
  auto e = head<occatrace_mpi_call_file>(f);
  const Call &c = f.call;
  e.buffer = static_cast<uint64_t>(f.word(c.buffer));
  e.file = handle_of(f.word(c.file));
  e.ret = f.ret;
  if (f.ok()) {
    e.bytes = f.bytes(f.amount(c.count), c.datatype);
    e.request = f.new_request();
  }
  write(f, e);
}

void finish_communicator(InFlight &f) {
  const Call &c = f.call;
  if (f.ok() && c.shape == Shape::name) rename_comm(handle_of(f.word(c.comm)));
  if (f.level != OCCATRACE_EVENT) return;
  auto e = head<occatrace_mpi_call_communicator>(f);
  e.ret = f.ret;
  if (c.shape == Shape::free) {
    e.comm = static_cast<uint32_t>(f.count); // as it was known before the call
  } else if (f.ok()) {
    e.comm = id_of(f.comm());
    if (c.shape == Shape::make && f.word(c.new_comm)) e.result = id_of(comm_of(f.state, handle_at(f.word(c.new_comm))));
  }
  write(f, e);
}

// Who this process is: at the end of MPI_Init and at the begin of MPI_Finalize, so that it is known when it had MPI.
void write_rank(int rank, int size) {
  static int own_rank = -1, own_size;
  static uint32_t library;
  if (size >= 0) {
    char text[8192] = "";
    int length = 0;
    if (ask.library_version) ask.library_version(text, &length);
    text[sizeof text - 1] = '\0';
    text[std::min<size_t>(std::strcspn(text, "\n"), 200)] = '\0';
    own_rank = rank;
    own_size = size;
    library = occatrace_intern(text);
  }
  const uint32_t name = occatrace_intern(abi.name);
  occatrace_thread *self = occatrace_self();
  const occatrace_mpi_rank r{self->tid, self->next_seq++, static_cast<uint32_t>(getpid()), own_rank, own_size, library, name};
  events->rank(&r);
}

// MPI may be asked from here on.
void initialized(Word session) {
  int rank = -1, size = 0;
  int world = 0, over = 0;
  if (ask.initialized) ask.initialized(&world);
  if (ask.finalized) ask.finalized(&over);
  if (world && !over) {
    ask.comm_rank(abi.comm_world, &rank);
    ask.comm_size(abi.comm_world, &size);
    if (!world_group_known) world_group_known = ask.comm_group(abi.comm_world, &world_group) == 0;
  } else if (session != 0 && ask.session_group && ask.group_rank) {
    if (!world_group_known) world_group_known = ask.session_group(session, "mpi://WORLD", &world_group) == 0;
    if (world_group_known && ask.group_rank(world_group, &rank) == 0) ask.group_size(world_group, &size);
  } else {
    return;
  }
  usable = true;
  write_rank(rank, size);
}

// And no more.
void finalizing() {
  if (!usable.exchange(false)) return;
  requests.clear([](const Request &r) {
    if (r.active) write_message(r, Unfinished);
  });
  write_rank(-1, -1);
}

void finish_plain(InFlight &f) {
  if (f.level == OCCATRACE_EVENT) {
    auto e = head<occatrace_mpi_call_plain>(f);
    e.ret = f.ret;
    write(f, e);
  }
  if (f.call.shape == Shape::init && f.ok())
    initialized(f.function == OCCATRACE_MPI_MPI_Session_init && f.args[2] ? static_cast<Word>(handle_at(f.args[2])) : 0);
}

// ---- around the real call ----

// What has to be read before the call, because the call changes it. `args` may be changed: statuses of ours stand in where
// the program wants none, so that it can be known what came.
void prepare(InFlight &f, Word *args) {
  const Call &c = f.call;
  switch (c.kind) {
    case Kind::complete: {
      f.count = c.count >= 0 ? f.amount(c.count) : 1;
      if (f.count < 0 || f.word(c.request) == 0) f.count = 0;
      const size_t n = static_cast<size_t>(f.count);
      auto *handles = f.state->handles;
      if (n > std::size(f.state->handles)) {
        handles = static_cast<uint64_t *>(std::malloc(n * sizeof *handles));
        if (!handles) {
          f.count = 0;
          break;
        }
        f.own_handles = true;
      }
      for (size_t i = 0; i < n; i++) handles[i] = handle_at(f.word(c.request), static_cast<int64_t>(i));
      f.handles = handles;
      f.statuses = reinterpret_cast<const char *>(args[c.status]);
      if (args[c.status] == abi.status_ignore) {
        const size_t wanted = c.shape == Shape::one || c.shape == Shape::any ? 1 : std::max<size_t>(n, 1);
        char *own = f.state->statuses;
        if (wanted > std::size(f.state->handles)) {
          own = static_cast<char *>(std::calloc(wanted, abi.status_size));
          f.own_statuses = own != nullptr;
        }
        f.statuses = own;
        if (own) args[c.status] = reinterpret_cast<Word>(own);
      }
      break;
    }
    case Kind::recv:
    case Kind::probe:
    case Kind::sendrecv:
    case Kind::posted:
      if (c.message >= 0 && c.kind != Kind::probe) {
        f.state->handles[0] = handle_at(f.word(c.message));
        f.handles = f.state->handles;
      }
      if (c.status >= 0) {
        if (args[c.status] == abi.status_ignore) args[c.status] = reinterpret_cast<Word>(f.state->statuses);
        f.statuses = reinterpret_cast<const char *>(args[c.status]);
      }
      break;
    case Kind::request:
      f.state->handles[0] = handle_at(f.word(c.request));
      f.handles = f.state->handles;
      break;
    case Kind::window:
      if (c.shape == Shape::free) {
        f.state->handles[0] = handle_at(f.word(c.window));
        f.handles = f.state->handles;
        forget_window(f.handles[0]);
      }
      break;
    case Kind::communicator:
      if (c.shape == Shape::free) {
        const uint64_t handle = handle_at(f.word(c.comm));
        {
          const std::shared_lock<std::shared_mutex> guard(known.lock);
          const auto found = known.comms.find(handle);
          f.count = found == known.comms.end() ? 0 : found->second->id;
        }
        forget_comm(handle);
      }
      break;
    case Kind::type:
      if (f.args[0]) forget_type(handle_at(f.args[0]));
      break;
    default:
      break;
  }
}

void finish(InFlight &f) {
  const bool event = f.level == OCCATRACE_EVENT;
  switch (f.call.kind) {
    case Kind::send:
      if (event) finish_send(f);
      break;
    case Kind::recv:
      if (event) finish_recv(f);
      break;
    case Kind::isend: finish_isend(f); break;
    case Kind::posted: finish_posted(f); break;
    case Kind::start: finish_start(f); break;
    case Kind::complete: finish_complete(f); break;
    case Kind::request: finish_request(f); break;
    case Kind::probe: finish_probe(f); break;
    case Kind::sendrecv:
      if (event) finish_sendrecv(f);
      break;
    case Kind::collective: finish_collective(f); break;
    case Kind::onesided: finish_onesided(f); break;
    case Kind::window: finish_window(f); break;
    case Kind::file:
      if (event) finish_file(f);
      break;
    case Kind::communicator: finish_communicator(f); break;
    case Kind::type:
      if (event) {
        auto e = head<occatrace_mpi_call_type>(f);
        e.ret = f.ret;
        write(f, e);
      }
      break;
    case Kind::plain: finish_plain(f); break;
    case Kind::time: break;
  }
  if (f.own_handles) std::free(const_cast<uint64_t *>(f.handles));
  if (f.own_statuses) std::free(const_cast<char *>(f.statuses));
}

__attribute__((noinline)) void note_failure(int function, uint32_t seq, int ret) {
  char text[8192] = "";
  int length = 0;
  if (usable && ask.error_string && ask.error_string(ret, text, &length) == 0) text[sizeof text - 1] = '\0';
  text[std::min<size_t>(std::strcspn(text, "\n"), 500)] = '\0';
  occatrace_failure(first_tally + static_cast<uint32_t>(function), seq, ret, text[0] ? occatrace_intern(text) : 0);
}

// A call inside a call (Fortran above C, callbacks, the MPI's own use of itself) is the outer one's business. A frame that
// was left by longjmp is known by the stack having grown back above it.
struct Outermost {
  State *state;
  Outermost(State *s, const char *frame) : state(s) { s->frame = frame; }
  ~Outermost() { state->frame = nullptr; }
};

template <size_t> using Argument = Word;

// A call of slot S with its arguments, in a place of their own. One copy per number of arguments: 1200 would be large.
template <size_t... I> __attribute__((noinline)) Word run(int slot, Word *args, const char *frame) {
  using Real = Word (*)(Argument<I>...);
  const int function = slot / 2;
  const Call &c = calls[function];
  const Real real = reinterpret_cast<Real>(original[slot]);
  if (!occatrace_running()) return real(args[I]...);
  occatrace_thread *self = occatrace_self();
  State *state = state_of(self);
  if (state == nullptr) return real(args[I]...);
  if (state->frame != nullptr && frame < state->frame) {
    if (args[0] && c.kind == Kind::type) forget_type(handle_at(args[0]));
    if (args[0] && c.kind == Kind::communicator && c.shape == Shape::free) forget_comm(handle_at(args[0]));
    return real(args[I]...);
  }
  const Outermost outermost(state, frame);
  if (only_counted[function]) {
    if (occatrace_level_now(OCCATRACE_TALLY) == OCCATRACE_OFF) return real(args[I]...);
    const uint64_t begin = occatrace_ticks();
    const Word result = real(args[I]...);
    occatrace_tally_add(self, first_tally + static_cast<uint32_t>(function), occatrace_ticks() - begin, static_cast<int>(result) != 0);
    if (__builtin_expect(static_cast<int>(result) != 0, 0)) note_failure(function, OCCATRACE_NO_RUN, static_cast<int>(result));
    return result;
  }
  const uint8_t level = occatrace_level_now(levels[function]);
  if (__builtin_expect(function == OCCATRACE_MPI_MPI_Finalize, 0)) finalizing();
  InFlight f{c, function, args, self, state, level};
  if (follow) prepare(f, args);
  if (level == OCCATRACE_EVENT) {
    f.seq = self->next_seq++;
    f.begin = occatrace_now();
    if (c.blocking) {
      using Begin = void (*)(const occatrace_mpi_begin *);
      const occatrace_mpi_begin b{self->tid, self->next_seq++, f.seq};
      (*reinterpret_cast<const Begin *>(reinterpret_cast<const char *>(events) + c.begin))(&b);
    }
  } else {
    f.begin = occatrace_ticks();
  }
  const Word result = real(args[I]...);
  f.ret = static_cast<int>(result);
  if (level == OCCATRACE_TALLY)
    occatrace_tally_add(self, first_tally + static_cast<uint32_t>(function), occatrace_ticks() - f.begin, f.ret != 0);
  if (follow || level == OCCATRACE_EVENT) finish(f);
  else if (c.shape == Shape::init && f.ok()) initialized(0);
  if (__builtin_expect(f.ret != 0 && level != OCCATRACE_OFF, 0)) note_failure(function, level == OCCATRACE_EVENT ? f.seq : OCCATRACE_NO_RUN, f.ret);
  return result;
}

template <int S, size_t... I> Word wrapper(Argument<I>... given) {
  Word args[] = {given..., 0};
  return run<I...>(S, args, static_cast<const char *>(__builtin_frame_address(0)));
}

// The clock is the only one that returns no int.
template <int S> double clock_wrapper() {
  constexpr int F = S / 2;
  const auto real = reinterpret_cast<double (*)()>(original[S]);
  const uint8_t level = occatrace_level_now(levels[F]);
  if (level == OCCATRACE_OFF) return real();
  occatrace_thread *self = occatrace_self();
  const uint64_t begin = level == OCCATRACE_EVENT ? occatrace_now() : occatrace_ticks();
  const uint32_t seq = level == OCCATRACE_EVENT ? self->next_seq++ : 0;
  const double now = real();
  if (level == OCCATRACE_EVENT) {
    const occatrace_mpi_call_time e{self->tid, seq, begin};
    using Writer = void (*)(const occatrace_mpi_call_time *);
    (*reinterpret_cast<const Writer *>(reinterpret_cast<const char *>(events) + calls[F].emit))(&e);
  } else {
    occatrace_tally_add(self, first_tally + F, occatrace_ticks() - begin, 0);
  }
  return now;
}

template <int S, size_t... I> void *with_arguments(std::index_sequence<I...>) { return reinterpret_cast<void *>(wrapper<S, I...>); }
template <int S> void *hook() {
  if constexpr (calls[S / 2].kind == Kind::time) return reinterpret_cast<void *>(clock_wrapper<S>);
  else return with_arguments<S>(std::make_index_sequence<calls[S / 2].parameters>());
}
template <int... S> std::array<void *, sizeof...(S)> all_hooks(std::integer_sequence<int, S...>) { return {hook<S>()...}; }

void after_fork_child() {
  // MPI in a forked child is not allowed; what it does is passed on and not recorded.
  usable = false;
}
occatrace_backend backend{"mpi", nullptr, after_fork_child, nullptr};

}  // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_mpi(const occatrace_trampolines *trampolines) {
  static const uint8_t table[][4] = OCCATRACE_MPI_LEVELS;
  static const char *const names[] = OCCATRACE_MPI_NAMES;
  static_assert(std::size(calls) == kCalls && static_cast<int>(OCCATRACE_MPI_SLOTS) == 2 * kCalls, "two symbols for each call");
  events = static_cast<const occatrace_mpi_events *>(occatrace_load_provider("mpi"));
  if (!events) return;
  constexpr int kInit = 2 * OCCATRACE_MPI_MPI_Init;
  Dl_info info;
  if (!trampolines->original[kInit + 1] || !dladdr(trampolines->original[kInit + 1], &info)) return;
  void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (!library) library = dlopen(nullptr, RTLD_LAZY);
  find_mpi(library, info.dli_fname);
  if (!ask.comm_size || !ask.comm_rank || !ask.comm_group || !ask.type_size) return;
  occatrace_levels("mpi", levels, table, names, kCalls);
  first_tally = occatrace_register_functions("mpi", names, kCalls);
  follow = occatrace_mode_of("mpi") == OCCATRACE_DEFAULT || occatrace_mode_of("mpi") == OCCATRACE_FULL;
  for (int i = 0; i < kCalls; i++) {
    const bool stateless = calls[i].kind == Kind::plain && calls[i].shape == Shape::none;
    const bool bounds = calls[i].shape == Shape::init || i == OCCATRACE_MPI_MPI_Finalize; // of the time with MPI
    only_counted[i] = levels[i] == OCCATRACE_TALLY && (stateless || (!follow && !bounds));
  }
  const auto hooks = all_hooks(std::make_integer_sequence<int, 2 * kCalls>());
  for (int s = 0; s < 2 * kCalls; s++) {
    void *&real = original[s];
    real = trampolines->original[s];
    if (!real) continue;
    // Another tool's MPI_x may stand between the program and the library.
    if (s % 2 == 0)
      if (void *next = occatrace_find_symbol(trampolines->symbols[s], real)) real = next;
    trampolines->slots[s] = levels[s / 2] == OCCATRACE_OFF ? real : hooks[static_cast<size_t>(s)];
  }
  occatrace_backend_register(&backend);
  initialized(0);
}
