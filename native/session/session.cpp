// The Python module occatrace._session: the few calls of liblttng-ctl that a run needs, each a function on a session's
// name, with errors as exceptions. Decisions (sizes, names, order) are in occatrace/record/session.py.
#include <lttng/lttng.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace py = pybind11;

// In liblttng-ctl, which else writes to stderr, the profiled program's too, what it also returns as an error.
extern "C" __attribute__((weak)) int lttng_opt_quiet;

namespace {

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// liblttng-ctl has one socket for all threads, and no lock of its own: calls of two threads would take each other's answers.
std::mutex library;
using Alone = std::lock_guard<std::mutex>;

// liblttng-ctl answers with negative lttng_error_code, or with the code itself in its newer functions.
void check(const std::string &what, int code) {
  if (code < 0) throw Error(what + ": " + lttng_strerror(code));
}
void check(const std::string &what, lttng_error_code code) {
  if (code != LTTNG_OK) throw Error(what + ": " + lttng_strerror(-static_cast<int>(code)));
}

template <std::size_t N>
void copy_text(char (&to)[N], const std::string &from) {
  if (from.size() >= N) throw Error("name too long for LTTng: " + from);
  std::memcpy(to, from.c_str(), from.size() + 1);
}

lttng_domain ust_domain() {
  lttng_domain domain{};
  domain.type = LTTNG_DOMAIN_UST;
  domain.buf_type = LTTNG_BUFFER_PER_UID;
  return domain;
}

using Handle = std::unique_ptr<lttng_handle, decltype(&lttng_destroy_handle)>;
Handle open_handle(const std::string &session) {
  lttng_domain domain = ust_domain();
  Handle handle(lttng_create_handle(session.c_str(), &domain), &lttng_destroy_handle);
  if (!handle) throw Error("cannot reach session " + session);
  return handle;
}

using Tracker = std::unique_ptr<lttng_process_attr_tracker_handle, decltype(&lttng_process_attr_tracker_handle_destroy)>;
Tracker pid_tracker(const std::string &session) {
  lttng_process_attr_tracker_handle *tracker = nullptr;
  check("process tracker of " + session,
        lttng_session_get_tracker_handle(session.c_str(), LTTNG_DOMAIN_UST, LTTNG_PROCESS_ATTR_VIRTUAL_PROCESS_ID,
                                         &tracker));
  return {tracker, &lttng_process_attr_tracker_handle_destroy};
}

void use_home(const std::string &home) {
  // liblttng-ctl and the keeper read it; nobody else in this process does.
  setenv("LTTNG_HOME", home.c_str(), 1);
  // A member of the group `tracing` would be sent to the system's daemon first.
  lttng_set_tracing_group("");
}

void create(const std::string &session, const std::string &output) {
  const Alone alone(library);
  using Descriptor = std::unique_ptr<lttng_session_descriptor, decltype(&lttng_session_descriptor_destroy)>;
  Descriptor descriptor(lttng_session_descriptor_local_create(session.c_str(), output.c_str()),
                        &lttng_session_descriptor_destroy);
  if (!descriptor) throw Error("cannot describe session " + session + " in " + output);
#ifdef OCCATRACE_HAVE_TRACE_FORMAT
  lttng_session_descriptor_set_trace_format(descriptor.get(), LTTNG_TRACE_FORMAT_CTF_1_8);
#endif
  check("create session " + session, lttng_create_session_ext(descriptor.get()));
}

void set_shm_path(const std::string &session, const std::string &path) {
  const Alone alone(library);
  check("shared memory path " + path, lttng_set_session_shm_path(session.c_str(), path.c_str()));
}

void add_channel(const std::string &session, const std::string &name, std::uint64_t subbuf_size,
                 std::uint64_t subbuf_count, unsigned switch_timer_us, unsigned read_timer_us) {
  const Alone alone(library);
  Handle handle = open_handle(session);
  lttng_domain domain = ust_domain();
  std::unique_ptr<lttng_channel, decltype(&lttng_channel_destroy)> channel(lttng_channel_create(&domain),
                                                                           &lttng_channel_destroy);
  if (!channel) throw Error("cannot describe channel " + name);
  copy_text(channel->name, name);
  channel->enabled = 1; // LTTng before 2.16 takes the command's word for it
  channel->attr.overwrite = 0; // discard: a full buffer never holds the program up
  channel->attr.subbuf_size = subbuf_size;
  channel->attr.num_subbuf = subbuf_count;
  channel->attr.switch_timer_interval = switch_timer_us;
  channel->attr.read_timer_interval = read_timer_us;
  channel->attr.output = LTTNG_EVENT_MMAP;
  check("channel " + name, lttng_enable_channel(handle.get(), channel.get()));
}

// Events of these names that are at least as severe as `loglevel`.
void enable_events(const std::string &session, const std::string &channel, const std::vector<std::string> &patterns,
                   int loglevel) {
  const Alone alone(library);
  Handle handle = open_handle(session);
  for (const std::string &pattern : patterns) {
    std::unique_ptr<lttng_event, decltype(&lttng_event_destroy)> event(lttng_event_create(), &lttng_event_destroy);
    if (!event) throw Error("out of memory");
    event->type = LTTNG_EVENT_TRACEPOINT;
    event->loglevel_type = LTTNG_EVENT_LOGLEVEL_RANGE;
    event->loglevel = loglevel;
    copy_text(event->name, pattern);
    check("event " + pattern, lttng_enable_event(handle.get(), event.get(), channel.c_str()));
  }
}

void track_only(const std::string &session) {
  const Alone alone(library);
  Tracker tracker = pid_tracker(session);
  if (lttng_process_attr_tracker_handle_set_tracking_policy(tracker.get(), LTTNG_TRACKING_POLICY_INCLUDE_SET) !=
      LTTNG_PROCESS_ATTR_TRACKER_HANDLE_STATUS_OK)
    throw Error("cannot restrict session " + session + " to processes of its own");
}

void track(const std::string &session, int pid) {
  const Alone alone(library);
  Tracker tracker = pid_tracker(session);
  const auto status = lttng_process_attr_virtual_process_id_tracker_handle_add_pid(tracker.get(), pid);
  if (status != LTTNG_PROCESS_ATTR_TRACKER_HANDLE_STATUS_OK &&
      status != LTTNG_PROCESS_ATTR_TRACKER_HANDLE_STATUS_EXISTS)
    throw Error("cannot track process " + std::to_string(pid));
}

// The events so far become a trace of their own, and recording goes on in a new one. Whether that was done within a time.
bool rotate(const std::string &session, double timeout_s) {
  using Rotation = std::unique_ptr<lttng_rotation_handle, decltype(&lttng_rotation_handle_destroy)>;
  lttng_rotation_handle *begun = nullptr;
  {
    const Alone alone(library);
    check("rotate " + session, lttng_rotate_session(session.c_str(), nullptr, &begun));
  }
  const Rotation rotation(begun, &lttng_rotation_handle_destroy);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  for (auto pause = std::chrono::milliseconds(5);; pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
    std::this_thread::sleep_for(pause);
    lttng_rotation_state state = LTTNG_ROTATION_STATE_ONGOING;
    const Alone alone(library);
    if (lttng_rotation_handle_get_state(rotation.get(), &state) != LTTNG_ROTATION_STATUS_OK)
      throw Error("rotation of " + session + ": its state is not known");
    if (state == LTTNG_ROTATION_STATE_COMPLETED || state == LTTNG_ROTATION_STATE_EXPIRED) return true;
    if (state != LTTNG_ROTATION_STATE_ONGOING) throw Error("rotation of " + session + " failed");
    if (std::chrono::steady_clock::now() > end) return false;
  }
}

bool daemon_alive() {
  const Alone alone(library);
  return lttng_session_daemon_alive() == 1;
}

void start(const std::string &session) {
  const Alone alone(library);
  check("start " + session, lttng_start_tracing(session.c_str()));
}

void stop(const std::string &session) {
  const Alone alone(library);
  check("stop " + session, lttng_stop_tracing_no_wait(session.c_str()));
}

void destroy(const std::string &session) {
  const Alone alone(library);
  check("destroy " + session, lttng_destroy_session_no_wait(session.c_str()));
}

bool data_pending(const std::string &session) {
  const Alone alone(library);
  const int pending = lttng_data_pending(session.c_str());
  check("data of " + session, pending);
  return pending != 0;
}

std::vector<std::string> sessions() {
  const Alone alone(library);
  lttng_session *list = nullptr;
  const int count = lttng_list_sessions(&list);
  std::unique_ptr<lttng_session, decltype(&std::free)> owner(list, &std::free);
  check("list of sessions", count);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(list[i].name);
  return names;
}

} // namespace

PYBIND11_MODULE(_session, m) {
  m.doc() = "Control of LTTng sessions (liblttng-ctl).";
  py::register_exception<Error>(m, "Error", PyExc_RuntimeError);
  if (&lttng_opt_quiet) lttng_opt_quiet = 1;
  using Release = py::call_guard<py::gil_scoped_release>;
  m.def("use_home", &use_home, py::arg("home"), "Talk to the daemon of this LTTNG_HOME (not as root).");
  m.def("daemon_alive", &daemon_alive, Release());
  m.def("sessions", &sessions, Release());
  m.def("create", &create, py::arg("session"), py::arg("output"), Release());
  m.def("set_shm_path", &set_shm_path, py::arg("session"), py::arg("path"), Release());
  m.def("add_channel", &add_channel, py::arg("session"), py::arg("name"), py::kw_only(), py::arg("subbuf_size"),
        py::arg("subbuf_count"), py::arg("switch_timer_us") = 0, py::arg("read_timer_us") = 0, Release());
  m.def("enable_events", &enable_events, py::arg("session"), py::arg("channel"), py::arg("patterns"), py::arg("loglevel"),
        Release());
  m.def("track_only", &track_only, py::arg("session"), Release());
  m.def("track", &track, py::arg("session"), py::arg("pid"), Release());
  m.def("start", &start, py::arg("session"), Release());
  m.def("stop", &stop, py::arg("session"), Release(), "Stop without waiting for the data: see data_pending.");
  m.def("rotate", &rotate, py::arg("session"), py::arg("timeout_s"), Release(),
        "Begin a new trace, and wait until the one before is finished; whether it was in time.");
  m.def("data_pending", &data_pending, py::arg("session"), Release());
  m.def("destroy", &destroy, py::arg("session"), Release(),
        "Destroy without LTTng's wait of half a second; first stop, then let data_pending end.");
}
