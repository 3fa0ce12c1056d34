// HTTP requests: however their bytes are cut into pieces, the same requests come out or the same
// refusal, and nothing is larger than it may be.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_parser.h"

namespace {

using strata::server::HttpLimits;
using strata::server::HttpParser;
using strata::server::HttpRequest;

constexpr uint64_t k_body = 4096;

std::string all_of(std::string_view bytes, size_t piece) {
  HttpLimits limits;
  limits.body = k_body;
  HttpParser parser(limits);
  std::string out;
  while (!bytes.empty()) {
    std::string_view part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    while (!part.empty()) {
      const size_t taken = parser.feed(part);
      if (taken > part.size()) std::abort();
      part.remove_prefix(taken);
      if (parser.state() == HttpParser::State::failed) {
        if (parser.status() < 400 || parser.problem().empty()) std::abort();
        return out + std::to_string(parser.status());
      }
      if (parser.state() != HttpParser::State::done) {
        if (taken == 0) std::abort();  // nothing would ever change
        continue;
      }
      out += parser.keep_alive() ? "k" : "c";
      const HttpRequest request = parser.take();
      if (request.body.size() > k_body || request.path.empty()) std::abort();
      out += request.method + " " + request.path + "?" + request.query + "\n" + request.body;
      for (const auto& [name, value] : request.headers) out += name + ":" + value + "\n";
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = all_of(bytes, std::max<size_t>(size, 1));
  for (const size_t piece : {size_t{1}, size_t{7}}) {
    if (all_of(bytes, piece) != whole) std::abort();
  }
  return 0;
}
