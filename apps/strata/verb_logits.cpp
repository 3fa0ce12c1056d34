// strata logits: the logits of every position of a token sequence, as little-endian F32.
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "strata/open_engine.h"
#include "strata/verb.h"

namespace strata::app {
namespace {

std::vector<TokenId> parse_ids(const std::string& text, const std::string& path) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (true) {
    while (at != end && is_space(*at)) ++at;
    if (at == end) break;
    TokenId id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc{} || (next != end && !is_space(*next))) {
      const char* word = at;
      while (at != end && !is_space(*at)) ++at;
      fail(ErrorCode::bad_request, "'{}', byte {}: '{}' is not a token id", printable(path, 400),
           word - text.data(), printable({word, static_cast<size_t>(at - word)}));
    }
    ids.push_back(id);
    at = next;
  }
  if (ids.empty()) {
    fail(ErrorCode::bad_request, "'{}' holds no token ids", printable(path, 400));
  }
  return ids;
}

}  // namespace

int logits_verb(const Options& options) {
  require_model(options);
  if (!options.tokens_file) {
    fail(ErrorCode::usage, "no tokens given; use --tokens-file FILE (- for standard input)");
  }
  if (!options.output_file) fail(ErrorCode::usage, "no output given; use -o FILE");
  const std::vector<TokenId> ids = parse_ids(read_file(*options.tokens_file), *options.tokens_file);
  const std::optional<uint64_t> n_context =
      options.ctx_size ? std::nullopt : std::optional<uint64_t>(ids.size());
  const std::unique_ptr<Engine> engine = open_engine(options, n_context);
  if (ids.size() > engine->info().n_context) {
    fail(ErrorCode::does_not_fit, "there are {} tokens, the context holds {}; use -c {}",
         ids.size(), engine->info().n_context, ids.size());
  }
  static_assert(std::endian::native == std::endian::little);
  OutputFile out(*options.output_file);
  engine->logits(
      ids, 0, [&](size_t, std::span<const float> row) { out.write(row.data(), row.size_bytes()); });
  out.close();
  log::info("{} positions x {} logits, {:.1f} MiB", ids.size(), engine->info().n_vocab,
            static_cast<double>(out.position()) / 1048576.0);
  return 0;
}

}  // namespace strata::app
