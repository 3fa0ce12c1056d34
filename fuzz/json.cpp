// JSON: what parses is written, and what is written parses to the same value.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::Json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Json value;
  try {
    value = Json::parse(text);
  } catch (const strata::Error&) {
    return 0;
  }
  for (const int indent : {-1, 2}) {
    // Outside any try block: an error here is a fault of ours.
    if (Json::parse(value.dump(indent)) != value) std::abort();
  }
  return 0;
}
