// Exceptions that pass through hooks of OCCA.
#ifndef OCCATRACE_OCCA_ERRORS_H
#define OCCATRACE_OCCA_ERRORS_H

#include <cstdint>

namespace occatrace {

// The message of the exception that is being handled, interned; 0: none is.
uint32_t current_error() noexcept;

} // namespace occatrace
#endif
