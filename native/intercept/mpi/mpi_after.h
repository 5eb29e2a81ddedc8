// What is done after a call, by its class.
#pragma once

#include "mpi_call.h"

namespace {

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
    e.partner = comm ? comm->ranks.of(arrived.source) : arrived.source == abi.proc_null ? kNobody
                                                                                        : kUnknown;
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
    uint8_t kind = sends ? Send : receives ? Receive
                                           : Collective;
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
      r.partner = arrived.source == abi.proc_null ? kNobody : r.comm ? r.comm->ranks.of(arrived.source)
                                                                     : kUnknown;
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
      const uint8_t kind = c.shape == Shape::put ? Put : c.shape == Shape::get ? Get
                                                                               : Accumulate;
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
  e.window = c.shape == Shape::make ? (f.ok() ? handle_at(f.word(c.window)) : 0) : c.shape == Shape::free ? f.handles[0]
                                                                                                          : handle_of(f.word(c.window));
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
  const occatrace_mpi_rank r{self->tid, occatrace_next_seq(self), static_cast<uint32_t>(getpid()), own_rank, own_size, library, name};
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

}  // namespace
