// Exceptions that pass through hooks of OCCA. A hook notes the message in a handler and throws on. To the runtime a handler is
// where an exception nobody else catches would be caught: it would unwind the stack to the hook, and a core dump or a debugger
// would not show any more where it was thrown. So our frames have no handlers while one is looked for, and have them as soon as
// the stack is unwound to a handler above. This library is linked with --wrap=__gxx_personality_v0.
#include "occa_errors.h"

#include <cxxabi.h>
#include <unwind.h>

#include <cctype>
#include <cstring>
#include <exception>
#include <string>
#include <typeinfo>

#include "occatrace_core.h"

namespace {

// In current_error(), which catches what it throws.
thread_local bool asking = false;

// OCCA's message stands in a banner with file, line and stack: the message alone says it.
std::string message_of(const char *what) {
  std::string text = what;
  const size_t found = text.find("Message  : ");
  if (found != std::string::npos) {
    text = text.substr(found + std::strlen("Message  : "));
    text = text.substr(0, text.find("\n    Stack"));
  }
  std::string line;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c));
    if (space ? !line.empty() && line.back() != ' ' : true) line += space ? ' ' : c;
    if (line.size() == 500) break;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line.empty() ? "exception" : line;
}

uint32_t intern(const std::string &text) { return occatrace_intern_n(text.data(), text.size()); }

} // namespace

uint32_t occatrace::current_error() noexcept {
  const std::type_info *type = abi::__cxa_current_exception_type();
  if (!type) return 0;
  asking = true;
  uint32_t error = 0;
  try {
    throw;
  } catch (const std::exception &e) {
    error = intern(message_of(e.what()));
  } catch (...) {
    error = occatrace_intern(type->name());
  }
  asking = false;
  return error;
}

#define PERSONALITY(name) \
  extern "C" _Unwind_Reason_Code name(int version, _Unwind_Action actions, _Unwind_Exception_Class kind, _Unwind_Exception *exception, \
                                      _Unwind_Context *context)
PERSONALITY(__real___gxx_personality_v0);
PERSONALITY(__wrap___gxx_personality_v0);
PERSONALITY(__wrap___gxx_personality_v0) {
  if ((actions & _UA_SEARCH_PHASE) != 0 && !asking) return _URC_CONTINUE_UNWIND;
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}
