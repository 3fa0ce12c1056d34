// strata embedding: the vectors of one or many texts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "base/float_list.h"
#include "base/json.h"
#include "engine/scheduler.h"
#include "gguf/file.h"
#include "strata/inputs.h"
#include "strata/open_engine.h"
#include "strata/output.h"
#include "strata/verb.h"
#include "text/tokenizer.h"

namespace strata::app {
namespace {

using Vector = std::vector<float>;

// The texts that are not empty.
std::vector<std::string> split_texts(const std::string& all, const std::string& separator) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = separator.empty() ? std::string::npos : all.find(separator, at);
    std::string text = all.substr(at, end == std::string::npos ? end : end - at);
    if (!text.empty()) out.push_back(std::move(text));
    if (end == std::string::npos) break;
    at = end + separator.size();
  }
  if (out.empty()) fail(ErrorCode::bad_request, "there is nothing to embed: the text is empty");
  return out;
}

// All texts together, so that short ones share their steps.
std::vector<Vector> embed_all(Engine& engine, const std::vector<std::vector<TokenId>>& texts,
                              Pooling pooling) {
  std::vector<Vector> out(texts.size());
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = texts.size();
  std::optional<Error> failed;
  EmbeddingListener listener;
  listener.done = [&](size_t text, Vector vector) {
    const std::lock_guard lock(mutex);
    out[text] = std::move(vector);
    --open;
    changed.notify_all();
  };
  listener.failed = [&](const Error& error) {
    const std::lock_guard lock(mutex);
    failed = error;
    changed.notify_all();
  };
  Scheduler scheduler(engine, {});
  scheduler.embed({texts, pooling, 0}, std::move(listener));
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return open == 0 || failed; });
  if (failed) throw *failed;
  return out;
}

double cosine(const Vector& a, const Vector& b) {
  const auto dot = [](const Vector& x, const Vector& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0, std::plus<>(),
                              [](float u, float v) { return double{u} * v; });
  };
  const double lengths = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b));
  return lengths > 0 ? dot(a, b) / lengths : 0;
}

std::string list_of(const std::vector<Vector>& rows) {
  std::string out = "[";
  for (const Vector& row : rows) {
    if (out.size() > 1) out += ",\n";
    append_floats(out, row);
  }
  return out + "]";
}

std::string json_of(const std::vector<Vector>& rows, const std::string& model, uint64_t tokens,
                    bool similarities) {
  std::string out = "{\"object\":\"list\",\"data\":[\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out += fmt::format("{{\"object\":\"embedding\",\"index\":{},\"embedding\":", i);
    append_floats(out, rows[i]);
    out += i + 1 < rows.size() ? "},\n" : "}";
  }
  out += fmt::format(
      "],\n\"model\":{},\"usage\":{{\"prompt_tokens\":{},"
      "\"total_tokens\":{}}}",
      Json(model).dump(), tokens, tokens);
  if (similarities) {
    std::vector<Vector> matrix;
    for (const Vector& a : rows) {
      matrix.emplace_back();
      for (const Vector& b : rows) matrix.back().push_back(static_cast<float>(cosine(a, b)));
    }
    out += ",\n\"cosineSimilarity\":" + list_of(matrix);
  }
  return out + "}";
}

}  // namespace

int embedding_verb(const Options& options) {
  require_model(options);
  std::vector<std::vector<TokenId>> texts;
  uint64_t tokens = 0, longest = 0, cached = 0;
  {
    gguf::ParseOptions parse;
    parse.allow_missing_data = true;  // only the vocabulary is needed yet
    const auto tokenizer = text::Tokenizer::load(gguf::File::open(options.model, parse).metadata());
    for (const std::string& text :
         split_texts(input_text(options), options.embd_separator.value_or("\n"))) {
      // What is written like a control token in a text is text.
      texts.push_back(tokenizer->encode(text, {true, false}));
      tokens += texts.back().size();
      longest = std::max<uint64_t>(longest, texts.back().size());
      cached += texts.back().size() + 31;
    }
  }
  // Room for as many texts as are read at once.
  const uint64_t wanted =
      std::max(longest, std::min(cached, 4 * static_cast<uint64_t>(options.ubatch_size)));
  const std::unique_ptr<Engine> engine =
      open_engine(options, options.ctx_size ? std::nullopt : std::optional<uint64_t>(wanted));
  Pooling pooling = engine->info().pooling.value_or(Pooling::last);
  if (options.pooling) pooling = *parse_pooling(*options.pooling);

  std::vector<Vector> rows = embed_all(*engine, texts, pooling);
  if (pooling == Pooling::none) {
    std::vector<Vector> positions;
    const size_t width = engine->info().n_embd;
    for (const Vector& all : rows) {
      for (size_t at = 0; at < all.size(); at += width) {
        positions.emplace_back(all.begin() + static_cast<ptrdiff_t>(at),
                               all.begin() + static_cast<ptrdiff_t>(at + width));
      }
    }
    rows = std::move(positions);
  }
  for (Vector& row : rows) normalise(row, static_cast<int32_t>(options.embd_normalize));

  if (options.embd_output_format == "text") {
    for (const Vector& row : rows) print(fmt::format("{}\n", fmt::join(row, " ")));
  } else if (options.embd_output_format == "array") {
    print(list_of(rows) + "\n");
  } else {
    const std::string model = std::filesystem::path(options.model).stem().string();
    print(json_of(rows, model, tokens, options.embd_output_format == "json+") + "\n");
  }
  return 0;
}

}  // namespace strata::app
