// The framework of XPTI as far as a subscriber sees it: loads the library of XPTI_SUBSCRIBERS, tells it of two streams, and
// passes on what the program says (fake_tell).
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

namespace {

struct Payload {
  const char *name, *stack, *file;
  uint32_t line, column;
};
struct Event {
  uint64_t id, data_id, instance;
  uint16_t event_type, activity_type;
  uint32_t unused;
  uint64_t source, target;
  Payload payload;  // ours; the others do not look behind `target`
};
using Callback = void (*)(uint16_t, Event *, Event *, uint64_t, const void *);

std::map<std::pair<uint8_t, uint16_t>, Callback> callbacks;
uint64_t queue;

}  // namespace

extern "C" {

uint8_t xptiRegisterStream(const char *name) { return std::strcmp(name, "sycl") == 0 ? 1 : 2; }
int32_t xptiRegisterCallback(uint8_t stream, uint16_t point, Callback callback) {
  callbacks[{stream, point}] = callback;
  return 0;
}
const Payload *xptiQueryPayload(Event *event) { return &event->payload; }
int32_t xptiGetStashedTuple(char **key, uint64_t *value) {
  static char name[] = "queue_id";
  *key = name;
  *value = queue;
  return queue != 0 ? 0 : 1;
}

void fake_start() {
  const char *path = getenv("XPTI_SUBSCRIBERS");
  void *library = path != nullptr && getenv("XPTI_TRACE_ENABLE") != nullptr ? dlopen(path, RTLD_NOW) : nullptr;
  if (library == nullptr) return;
  const auto init = reinterpret_cast<void (*)(unsigned, unsigned, const char *, const char *)>(dlsym(library, "xptiTraceInit"));
  for (const char *stream : {"sycl", "sycl.experimental.mem_alloc", "ur.call"}) init(9, 0, "fake", stream);
}
void fake_queue(uint64_t number) { queue = number; }
void fake_tell(int stream, int point, uint64_t id, uint64_t instance, const char *name, const char *file, int line,
               uint64_t source, uint64_t target, const void *data) {
  Event event{id, 0, instance, 0, 0, 0, source, target, {name, nullptr, file, static_cast<uint32_t>(line), 0}};
  const auto found = callbacks.find({static_cast<uint8_t>(stream), static_cast<uint16_t>(point)});
  if (found != callbacks.end()) found->second(static_cast<uint16_t>(point), nullptr, &event, instance, data);
}

}  // extern "C"
