// Requests' JSON: whatever it holds, it is refused by name or becomes a generation within bounds.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "server/api.h"
#include "server/call.h"
#include "server/conversation.h"
#include "server/request.h"

namespace {

using strata::ErrorCode;
using strata::Json;
using strata::server::Call;
using strata::server::Fields;

template <class Read>
void refused_or_read(const Json& json, Read read) {
  try {
    Fields fields(json);
    read(fields);
    strata::server::warn_unknown(fields, "/v1/chat/completions");
  } catch (const strata::Error& error) {
    // Never a fault of the server's own.
    if (error.code() != ErrorCode::bad_request && error.code() != ErrorCode::unsupported) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  strata::log::set_sink([](strata::log::Level, std::string_view) {});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16'384) return 0;
  Json json;
  try {
    json = Json::parse({reinterpret_cast<const char*>(data), size}, 100);
  } catch (const strata::Error&) {
    return 0;
  }
  refused_or_read(json, [](Fields& fields) {
    strata::server::conversation_of(fields, strata::server::ApiOptions{});
  });
  refused_or_read(json, [](Fields& fields) {
    const strata::server::ApiOptions options;
    strata::GenerationRequest wanted;
    Call call;
    strata::server::read_generation(fields, options, wanted, call);
    const strata::SamplingOptions& s = wanted.sampling;
    for (const double number : {double(s.temperature), double(s.top_p), double(s.min_p),
                                double(s.repeat_penalty), double(s.presence_penalty)}) {
      if (!std::isfinite(number) || std::fabs(number) > 100) std::abort();
    }
    if (wanted.n < 1 || wanted.n > 128 || wanted.max_tokens < -1 || wanted.stop.size() > 64) {
      std::abort();
    }
  });
  return 0;
}
