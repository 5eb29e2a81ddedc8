// The metadata of a CTF 2 trace (CTF2-SPEC-2.0: a sequence of JSON fragments) as the types and event classes that TSDL declares
// for CTF 1.8, so that one compiler of layouts serves both.
#pragma once

#include "tsdl.h"

namespace occatrace::columns::ctf2 {

// Does the text of a metadata file (tsdl::text_of) begin as a sequence of JSON fragments does?
bool is_sequence(std::string_view text);

// Throws tsdl::MetadataError where the text is damaged or cut, tsdl::SyntaxError for what we do not know of CTF 2.
tsdl::Trace parse(std::string_view text);

} // namespace occatrace::columns::ctf2
