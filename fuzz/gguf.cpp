// GGUF headers: any bytes are refused or load, what loads is inside the file, and writing it again
// and reading that gives the same.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "gguf/writer.h"

namespace {

using namespace strata;
using namespace strata::gguf;

void require(bool holds) {
  if (!holds) std::abort();
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<TensorSpec> specs_of(const Header& header) {
  std::vector<TensorSpec> out;
  for (const TensorInfo& tensor : header.tensors) {
    out.push_back(
        {tensor.name, {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims}, tensor.type});
  }
  return out;
}

// Calls a getter; its typed error is a fine answer.
template <class Get>
void call(Get get) {
  try {
    get();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::bad_file);
  }
}

void use_metadata(const Metadata& metadata) {
  size_t shown = 0;
  for (const auto& [key, value] : metadata.entries()) {
    require(metadata.find(key) == &value);
    shown += to_display(value).size();
    const std::string& k = key;
    call([&] { metadata.get_uint(k); });
    call([&] { metadata.find_int(k); });
    call([&] { metadata.get_real(k); });
    call([&] { metadata.find_bool(k); });
    call([&] { metadata.get_string(k); });
    call([&] { metadata.find_strings(k); });
    call([&] { metadata.find_ints(k); });
    call([&] { metadata.find_reals(k); });
    call([&] { metadata.find_uint_per_layer(k, 3); });
  }
  require(shown >= metadata.entries().size());
}

void touch_tensors(const Header& header, std::span<const std::byte> file) {
  unsigned sum = 0;
  for (const TensorInfo& tensor : header.tensors) {
    require(tensor.elements > 0 && tensor.bytes > 0);
    for (const std::byte byte : file.subspan(header.data_offset + tensor.offset, tensor.bytes)) {
      sum += static_cast<unsigned>(byte);
    }
  }
  volatile unsigned sink = sum;
  (void)sink;
}

void round_trip(const Header& header) {
  const auto specs = specs_of(header);
  const std::string once = encode_header(header.metadata, specs, header.version);
  const Header again = parse_header(as_bytes(once), "again", {true});
  require(again.version == header.version);
  require(again.alignment == header.alignment);
  require(again.tensors.size() == header.tensors.size());
  for (size_t i = 0; i < again.tensors.size(); ++i) {
    const TensorInfo& a = again.tensors[i];
    const TensorInfo& b = header.tensors[i];
    require(a.name == b.name && a.n_dims == b.n_dims && a.dims == b.dims && a.type == b.type &&
            a.elements == b.elements && a.bytes == b.bytes);
  }
  require(encode_header(again.metadata, specs_of(again), again.version) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  bool whole = false;
  try {
    const Header header = parse_header(bytes, "input");
    whole = true;
    use_metadata(header.metadata);
    touch_tensors(header, bytes);
    round_trip(header);
  } catch (const Error& error) {
    require(!whole);
    require(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported);
  }
  try {
    const Header header = parse_header(bytes, "input", {true});
    if (!whole) round_trip(header);
  } catch (const Error&) {
    // What loads with its data loads without; sizes without data may be too large to lay out.
    require(!whole);
  }
  const std::string_view name(reinterpret_cast<const char*>(data), size);
  if (const auto split = parse_split_name(name)) {
    require(split_name(split->prefix, split->index, split->count) == name);
  }
  return 0;
}
