// Standard output: results, written so that a full disk is noticed.
//
// Errors: ErrorCode::io when the system refuses. A reader that went away (a closed pipe) ends the
// process quietly through SIGPIPE, as is usual for filters.
// Threads: one at a time.
#pragma once

#include <string_view>

namespace strata::app {

// Writes (buffered by stdio).
void print(std::string_view text);
// Whether a terminal shows text of this program without an end, and standard error goes to a
// terminal too. Once true it is false until more text comes.
bool take_open_line();
// Hands everything to the system: after streamed text, and at the end.
void flush_output();

}  // namespace strata::app
