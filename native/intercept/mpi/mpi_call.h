// A call of MPI in flight, and what its buffers hold.
#pragma once

#include "mpi_known.h"

namespace {

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
    return place < 0 ? otherwise : wide(place) ? static_cast<int64_t>(args[place])
                                               : static_cast<int>(args[place]);
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
  e.caller = f.self->caller;
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

}  // namespace
