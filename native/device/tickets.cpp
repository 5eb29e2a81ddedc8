// Tickets of commands and the records that bring them back: see tickets.h.
#include "tickets.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "made_once.h"

namespace occatrace::device::tickets {

namespace {

std::atomic<const Source *> used{nullptr};
std::atomic<bool> stopped{false};
// No record is waited for any more, and no time of a record placed.
std::atomic<bool> forgotten{false};

// The commands of a queue, by number: one that later ones have overtaken for long gets no record any more.
struct Lane {
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> settled{0};
};
HandleMap &lanes() {
  static std::atomic<HandleMap *> all;
  return made_once(all);
}

struct Span {
  uint64_t start, end;
};

struct Ticket {
  std::atomic<bool> done{false};
  std::atomic<uint16_t> use{0};  // which: the same ticket is given out again
  Span span{0, 0};
  Lane *lane = nullptr;
  uint64_t number = 0;
  uint64_t overtaken = 0;  // when that was noticed
  // Of one that may have several records: which they are, and when the latest came.
  bool pieces = false;
  uint64_t correlation = 0;
  uint64_t told = 0;
};

std::mutex tickets_mutex;
std::vector<Ticket *> &free_tickets() {
  static std::atomic<std::vector<Ticket *> *> all;
  return made_once(all);
}

// The call that a ticket went with.
struct Told {
  uint64_t external, correlation;
};

// What a launching thread has of its own, so that it waits neither for those who bring records nor for those who take them:
// free tickets, and a ring of the numbers of its calls, which whoever brings records empties.
struct Own {
  static constexpr uint32_t kRing = 1024;
  static constexpr size_t kFree = 64;
  std::atomic<uint32_t> written{0}, read{0};
  Told ring[kRing];
  Ticket *free[kFree];
  size_t count = 0;
  std::atomic<bool> used{true};
  Own *next = nullptr;
};
std::atomic<Own *> all_own{nullptr};

struct Holder {
  Own *own = nullptr;
  bool over = false;
  ~Holder() {
    over = true;
    if (own != nullptr) own->used.store(false, std::memory_order_release);
  }
};
thread_local Holder holder;

// Null where the thread is about to end.
Own *own() {
  if (holder.over) return nullptr;
  if (holder.own != nullptr) return holder.own;
  // One of a thread that has ended: its tickets, and what it wrote, are as good as new.
  for (Own *at = all_own.load(std::memory_order_acquire); at != nullptr; at = at->next) {
    bool unused = false;
    if (at->used.compare_exchange_strong(unused, true, std::memory_order_acq_rel)) return holder.own = at;
  }
  holder.own = new Own;
  holder.own->next = all_own.load(std::memory_order_relaxed);
  while (!all_own.compare_exchange_weak(holder.own->next, holder.own, std::memory_order_acq_rel)) {
  }
  return holder.own;
}

// A ticket and its use as one number, an external correlation id.
constexpr int kUseAt = 48;
uint64_t id_of(const Ticket *ticket) {
  return reinterpret_cast<uint64_t>(ticket) | static_cast<uint64_t>(ticket->use.load(std::memory_order_relaxed)) << kUseAt;
}
Ticket *of_id(uint64_t id) { return reinterpret_cast<Ticket *>(id & ((uint64_t{1} << kUseAt) - 1)); }

constexpr uint64_t kGone = 300'000'000;
constexpr size_t kOrphans = 1 << 16;
constexpr size_t kExpected = 1 << 20;
std::atomic<uint64_t> missing{0};
std::atomic<uint64_t> unmatched{0};

std::mutex records_mutex;
// Correlation → ticket, until the record with the times is there; and the other way round.
std::unordered_map<uint64_t, Ticket *> &expected() {
  static std::atomic<std::unordered_map<uint64_t, Ticket *> *> all;
  return made_once(all);
}
std::unordered_map<uint64_t, Span> &orphans() {
  static std::atomic<std::unordered_map<uint64_t, Span> *> all;
  return made_once(all);
}
std::deque<uint64_t> &orphan_order() {
  static std::atomic<std::deque<uint64_t> *> all;
  return made_once(all);
}
std::deque<uint64_t> &expected_order() {
  static std::atomic<std::deque<uint64_t> *> all;
  return made_once(all);
}

// Under the lock of the records.
void settle(Ticket *ticket, const Span &span) {
  const bool first = !ticket->done.load(std::memory_order_relaxed);
  ticket->span.start = first ? span.start : std::min(ticket->span.start, span.start);
  ticket->span.end = first ? span.end : std::max(ticket->span.end, span.end);
  if (ticket->pieces) ticket->told = occatrace_now();
  if (ticket->lane->settled.load(std::memory_order_relaxed) < ticket->number) ticket->lane->settled.store(ticket->number);
  ticket->done.store(true, std::memory_order_release);
}

void expect(uint64_t correlation, Ticket *ticket) {
  ticket->correlation = correlation;
  auto &order = expected_order();
  while (!order.empty() && expected().count(order.front()) == 0) order.pop_front();
  expected()[correlation] = ticket;
  order.push_back(correlation);
  // Of calls that failed no work is told. Bounded.
  while (order.size() > kExpected) {
    expected().erase(order.front());
    order.pop_front();
  }
}

void expect_or_settle(const Told &call) {
  Ticket *ticket = of_id(call.external);
  // The call failed, and its ticket went to another.
  if (ticket == nullptr || ticket->use.load(std::memory_order_relaxed) != call.external >> kUseAt) return;
  const auto waiting = orphans().find(call.correlation);
  if (waiting == orphans().end() || ticket->pieces) expect(call.correlation, ticket);
  if (waiting == orphans().end()) return;
  settle(ticket, waiting->second);
  orphans().erase(waiting);
}

// Takes what launching threads wrote. Under the lock of the records.
void empty_rings() {
  for (Own *at = all_own.load(std::memory_order_acquire); at != nullptr; at = at->next) {
    const uint32_t written = at->written.load(std::memory_order_acquire);
    uint32_t read = at->read.load(std::memory_order_relaxed);
    for (; read != written; ++read) expect_or_settle(at->ring[read % Own::kRing]);
    at->read.store(read, std::memory_order_release);
  }
}

// Whether all the records of one with several are there: a later command of its queue had one, or nothing came for long, or
// nothing will come any more.
std::atomic<bool> all_told{false};
bool is_whole(const Ticket &ticket) {
  if (all_told.load(std::memory_order_relaxed)) return true;
  if (ticket.lane->settled.load(std::memory_order_relaxed) > ticket.number) return true;
  return occatrace_now() - ticket.told >= kGone;
}

int32_t poll(void *handle, Times *times) {
  auto *ticket = static_cast<Ticket *>(handle);
  *times = {};
  if (forgotten.load(std::memory_order_acquire)) {
    ++missing;
    return 0;  // complete, without stamps
  }
  if (ticket->done.load(std::memory_order_acquire)) {
    std::unique_lock<std::mutex> guard(records_mutex, std::defer_lock);
    if (ticket->pieces) {
      guard.lock();
      if (!is_whole(*ticket)) return kWorking;
    }
    times->start = ticket->span.start;
    times->end = ticket->span.end;
    return 0;
  }
  if (ticket->lane->settled.load(std::memory_order_relaxed) <= ticket->number) return kWorking;
  const uint64_t now = occatrace_now();
  if (ticket->overtaken == 0) ticket->overtaken = now;
  if (now - ticket->overtaken < kGone) return kWorking;
  ++missing;
  return 0;  // complete, without stamps
}

void release(void *handle) {
  auto *ticket = static_cast<Ticket *>(handle);
  // One that never got its record may still get it: it is left alone.
  if (!ticket->done.load(std::memory_order_acquire)) return;
  if (ticket->pieces) {
    std::lock_guard<std::mutex> guard(records_mutex);
    expected().erase(ticket->correlation);
  }
  drop(ticket);
}

void flush(bool all) {
  const Source *from = source();
  if (from == nullptr) return;
  if (!stopped.load(std::memory_order_acquire)) from->flush(all);
  if (!all) return;
  all_told.store(true, std::memory_order_relaxed);
  std::lock_guard<std::mutex> guard(records_mutex);
  empty_rings();
  const uint64_t others = unmatched.exchange(0) + orphans().size();
  // While calls were only counted there was work of theirs.
  if (others != 0 && !occatrace_was_full())
    occatrace_say("%s tells of %llu pieces of device work that no traced call launched", from->name,
                  static_cast<unsigned long long>(others));
  if (const uint64_t none = missing.exchange(0))
    occatrace_say("%s did not tell when device work ran: of %llu pieces", from->name, static_cast<unsigned long long>(none));
  orphans().clear();
  orphan_order().clear();
}

}  // namespace

const Vendor vendor{poll, release, flush};

void use(const Source &source) { used.store(&source, std::memory_order_release); }

const Source *source() { return used.load(std::memory_order_acquire); }

bool on() { return source() != nullptr && !stopped.load(std::memory_order_acquire); }

void stop() { stopped.store(true, std::memory_order_release); }

void forget() { forgotten.store(true, std::memory_order_release); }

void *take(const Queue *queue, bool pieces) {
  auto *lane = reinterpret_cast<Lane *>(lanes().get(queue));
  if (lane == nullptr) {
    std::lock_guard<std::mutex> guard(tickets_mutex);
    lane = reinterpret_cast<Lane *>(lanes().get(queue));
    if (lane == nullptr) lanes().set(queue, reinterpret_cast<uint64_t>(lane = new Lane));
  }
  Ticket *ticket = nullptr;
  Own *mine = own();
  if (mine != nullptr && mine->count == 0) {
    std::lock_guard<std::mutex> guard(tickets_mutex);
    auto &free = free_tickets();
    for (; mine->count < Own::kFree && !free.empty(); free.pop_back()) mine->free[mine->count++] = free.back();
  }
  ticket = mine != nullptr && mine->count != 0 ? mine->free[--mine->count] : new Ticket;
  ticket->done.store(false, std::memory_order_relaxed);
  ticket->lane = lane;
  ticket->number = ++lane->next;
  ticket->overtaken = 0;
  ticket->pieces = pieces;
  ticket->use.fetch_add(1, std::memory_order_relaxed);
  if (source()->push(id_of(ticket))) return ticket;
  drop(ticket);
  return nullptr;
}

void given() { source()->pop(); }

void drop(void *ticket) {
  std::lock_guard<std::mutex> guard(tickets_mutex);
  free_tickets().push_back(static_cast<Ticket *>(ticket));
}

void told_call(uint64_t external, uint64_t correlation) {
  const Told call{external, correlation};
  Own *mine = own();
  if (mine != nullptr) {
    const uint32_t written = mine->written.load(std::memory_order_relaxed);
    if (written - mine->read.load(std::memory_order_acquire) < Own::kRing) {
      mine->ring[written % Own::kRing] = call;
      mine->written.store(written + 1, std::memory_order_release);
      return;
    }
  }
  std::lock_guard<std::mutex> guard(records_mutex);
  empty_rings();
  expect_or_settle(call);
}

void told_work(uint64_t correlation, uint64_t start, uint64_t end) {
  const Span span{start, end};
  std::lock_guard<std::mutex> guard(records_mutex);
  auto found = expected().find(correlation);
  if (found == expected().end()) {
    empty_rings();
    found = expected().find(correlation);
  }
  if (found != expected().end()) {
    Ticket *ticket = found->second;
    if (!ticket->pieces) expected().erase(found);
    settle(ticket, span);
    return;
  }
  // What no call of ours launched: of libraries that reach the device in another way. Bounded.
  const auto [other, fresh] = orphans().emplace(correlation, span);
  if (fresh) {
    orphan_order().push_back(correlation);
  } else {
    other->second = {std::min(other->second.start, start), std::max(other->second.end, end)};
  }
  while (orphan_order().size() > kOrphans) {
    unmatched += orphans().erase(orphan_order().front());
    orphan_order().pop_front();
  }
}

void told(uint64_t external, uint64_t start, uint64_t end) {
  Ticket *ticket = of_id(external);
  if (ticket == nullptr || ticket->use.load(std::memory_order_relaxed) != external >> kUseAt ||
      (!ticket->pieces && ticket->done.load(std::memory_order_relaxed))) {
    ++unmatched;
    return;
  }
  std::lock_guard<std::mutex> guard(records_mutex);
  settle(ticket, {start, end});
}

void after_fork_child() {
  used.store(nullptr);
  stopped.store(false);
  forgotten.store(false);
  new (&tickets_mutex) std::mutex;
  new (&records_mutex) std::mutex;
  for (Own *at = all_own.load(); at != nullptr; at = at->next) at->read.store(at->written.load());
  lanes().unlock_after_fork();
}

}  // namespace occatrace::device::tickets
