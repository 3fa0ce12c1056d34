// The bytes of an answer's head, and what every answer says of itself.
//
// Threads: pure functions, but request_id(), which counts.
#pragma once

#include <string>

#include "server/http.h"

namespace strata::server {

// Head and body of an answer that is there as a whole. Fields that cannot be sent are left out.
std::string answer_text(const HttpRequest& request, const HttpResponse& response, bool keep);
// The head of one that comes in pieces: in chunks, or until the connection ends.
std::string stream_head(const HttpRequest& request, const HttpResponse& response, bool keep,
                        bool chunked);
// The client's own when it may be repeated in a header and a log, else a new one.
std::string request_id(const std::string& given);

}  // namespace strata::server
