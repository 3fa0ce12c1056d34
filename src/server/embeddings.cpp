// Embeddings: OpenAI's form at /v1/embeddings, llama-server's own at /embedding and /embeddings.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <mutex>

#include "base/error.h"
#include "base/float_list.h"
#include "base/json.h"
#include "base/stopping_error.h"
#include "server/api.h"
#include "server/call.h"
#include "server/request.h"

namespace strata::server {
namespace {

constexpr size_t k_max_inputs = 2048;
// An answer with a vector for each position could be of any size.
constexpr uint64_t k_max_values = uint64_t{1} << 24;
constexpr double k_look_seconds = 0.1;  // after the client

struct Embeddings {
  std::vector<std::vector<TokenId>> inputs;
  Pooling pooling = Pooling::last;
  int32_t norm = k_euclidean;
  size_t dimensions = 0;
  bool base64 = false;
  bool native = false;  // llama-server's form of answer
};

std::string nth(const char* name, size_t index) { return fmt::format("{}[{}]", name, index); }

std::vector<TokenId> ids_of(const Engine& engine, Fields& fields, const std::string& name,
                            const Json& list) {
  const auto n = static_cast<int64_t>(engine.info().n_tokens);
  std::vector<TokenId> out;
  for (const Json& id : list.as_array()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= n) {
      fields.refuse(name, fmt::format("must hold token ids from 0 to {}", n - 1));
    }
    out.push_back(static_cast<TokenId>(id.as_int()));
  }
  return out;
}

// A text, a list of ids, or a list of such.
std::vector<std::vector<TokenId>> inputs_of(const Engine& engine, Fields& fields,
                                            const char* name) {
  const Json& input = *fields.find(name);
  // What is written like a control token in a text is text.
  const auto text = [&](const Json& one) { return engine.tokenize(one.as_string(), true, false); };
  std::vector<std::vector<TokenId>> out;
  if (input.is_string()) {
    out.push_back(text(input));
  } else if (!input.is_array()) {
    fields.refuse(name, fmt::format("must be a string or a list, not {}", input.type_name()));
  } else if (!input.as_array().empty() && input.as_array()[0].is_number()) {
    out.push_back(ids_of(engine, fields, name, input));
  } else {
    if (input.as_array().empty() || input.as_array().size() > k_max_inputs) {
      fields.refuse(name, fmt::format("holds {} texts; 1 to {} are taken", input.as_array().size(),
                                      k_max_inputs));
    }
    for (const Json& one : input.as_array()) {
      const std::string where = nth(name, out.size());
      if (one.is_string()) {
        out.push_back(text(one));
      } else if (one.is_array()) {
        out.push_back(ids_of(engine, fields, where, one));
      } else {
        fields.refuse(where,
                      fmt::format("must be a string or a list of ids, not {}", one.type_name()));
      }
    }
  }
  const uint64_t capacity = engine.info().n_context;
  const bool one = input.is_string() || input.as_array()[0].is_number();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].empty()) fields.refuse(one ? name : nth(name, i), "is empty");
    if (out[i].size() <= capacity) continue;
    const std::string field = one ? name : nth(name, i);
    throw ContextError(
        field,
        fmt::format("'{}' has {} tokens, the context holds {}", field, out[i].size(), capacity),
        out[i].size(), capacity);
  }
  return out;
}

Embeddings read_embeddings(const Engine& engine, Fields& fields, const ApiOptions& options,
                           bool openai) {
  const ModelInfo& info = engine.info();
  Embeddings out;
  // llama-server takes its older "content" at any of the addresses, and answers in its own form.
  const char* name = !fields.has("input") && fields.has("content") ? "content" : "input";
  if (!fields.has(name)) {
    fields.refuse(name, "is missing: a string, a list of strings, or token ids");
  }
  out.native = !openai || std::strcmp(name, "content") == 0;
  out.pooling = options.pooling.value_or(info.pooling.value_or(Pooling::last));
  if (const auto pooling = fields.string("pooling")) {
    const auto known = parse_pooling(*pooling);
    if (!known) {
      fields.refuse("pooling", fmt::format("is '{}'; known are none, mean, cls and last",
                                           printable(*pooling)));
    }
    out.pooling = *known;
  }
  if (out.pooling == Pooling::none && !out.native) {
    fields.refuse("pooling",
                  "is 'none', with which a text has many vectors; OpenAI's form cannot hold them: "
                  "use another, or POST /embeddings");
  }
  // A position's own state is handed out as it is, unless asked for otherwise.
  out.norm = out.pooling == Pooling::none ? -1 : options.embd_normalize;
  if (const auto v = fields.integer("embd_normalize", k_min_norm, k_max_norm)) {
    out.norm = static_cast<int32_t>(*v);
  }
  out.dimensions =
      static_cast<size_t>(fields.integer("dimensions", 1, info.n_embd).value_or(info.n_embd));
  const std::string format = fields.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    fields.refuse("encoding_format",
                  fmt::format("is '{}'; known are float and base64", printable(format)));
  }
  out.base64 = format == "base64";
  out.inputs = inputs_of(engine, fields, name);
  if (out.pooling == Pooling::none) {
    uint64_t values = 0;
    for (const auto& tokens : out.inputs) values += tokens.size() * out.dimensions;
    if (values > k_max_values) {
      fields.refuse(name, fmt::format("would give {} values; at most {} are given at once", values,
                                      k_max_values));
    }
  }
  return out;
}

// What came of the inputs; the listener holds it too.
struct Results {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<float>> vectors;  // by input
  size_t done = 0;
  std::optional<Error> failed;
};

// The vectors as the model makes them, by input.
std::vector<std::vector<float>> run(Scheduler& scheduler, const Embeddings& wanted,
                                    const std::function<bool()>& connected) {
  const auto results = std::make_shared<Results>();
  const size_t n = wanted.inputs.size();
  results->vectors.resize(n);
  EmbeddingListener listener;
  listener.done = [results](size_t index, std::vector<float> vector) {
    const std::lock_guard lock(results->mutex);
    results->vectors[index] = std::move(vector);
    ++results->done;
    results->changed.notify_all();
  };
  listener.failed = [results](const Error& error) {
    const std::lock_guard lock(results->mutex);
    // Its own text: a copied exception shares it with one that another thread lets go.
    results->failed.emplace(error.code(), std::string(error.what()));
    results->changed.notify_all();
  };
  const RequestId id = scheduler.embed({wanted.inputs, wanted.pooling, 0}, std::move(listener));
  std::unique_lock lock(results->mutex);
  const auto over = [&] { return results->failed || results->done == n; };
  while (!results->changed.wait_for(lock, std::chrono::duration<double>(k_look_seconds), over)) {
    if (!connected || connected()) continue;
    scheduler.cancel(id);
    fail(ErrorCode::cancelled, "the client left before its answer was there");
  }
  if (results->failed) {
    // Nobody but a server that stops cancels what its client waits for.
    if (results->failed->code() == ErrorCode::cancelled) throw StoppingError();
    throw Error(results->failed->code(), std::string(results->failed->what()));
  }
  return std::move(results->vectors);
}

std::string base64_of(std::span<const float> values) {
  static constexpr char k_digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  const size_t n = values.size_bytes();
  std::string out;
  out.reserve((n + 2) / 3 * 4);
  for (size_t i = 0; i < n; i += 3) {
    const size_t left = std::min<size_t>(3, n - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < left ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) {
      out += k <= left ? k_digits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

}  // namespace

HttpResponse Api::embeddings(const HttpRequest& request) {
  const Json body = parse_body(request);
  Fields fields(body);
  fields.string("model");  // there is one model, whatever it is called
  fields.string("user");   // of the client's own
  const bool openai = request.path.rfind("/v1/", 0) == 0;
  const Embeddings wanted = read_embeddings(engine_, fields, options_, openai);
  warn_unknown(fields, request.path);
  std::vector<std::vector<float>> vectors = run(scheduler_, wanted, request.connected);

  const size_t width = engine_.info().n_embd;
  uint64_t tokens = 0;
  std::string list;
  for (size_t i = 0; i < vectors.size(); ++i) {
    tokens += wanted.inputs[i].size();
    if (i > 0) list += ',';
    fmt::format_to(std::back_inserter(list), "{{\"index\":{},", i);
    if (!wanted.native) list += "\"object\":\"embedding\",";
    list += wanted.native ? "\"embedding\":[" : "\"embedding\":";
    for (size_t at = 0; at < vectors[i].size(); at += width) {
      const std::span<float> row = std::span(vectors[i]).subspan(at, wanted.dimensions);
      try {
        normalise(row, wanted.norm);
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("'{}': {}", nth("input", i), error.what()));
      }
      if (at > 0) list += ',';
      if (wanted.base64) {
        list += '"' + base64_of(row) + '"';
      } else {
        append_floats(list, row);
      }
    }
    if (wanted.native) list += ']';
    if (wanted.base64) list += ",\"encoding_format\":\"base64\"";
    list += '}';
    vectors[i] = {};
  }
  HttpResponse response;
  if (wanted.native) {
    response.body = '[' + list + ']';
    return response;
  }
  response.body = fmt::format(
      "{{\"object\":\"list\",\"data\":[{}],\"model\":{},\"usage\":{{\"prompt_tokens\":{},"
      "\"total_tokens\":{}}}}}",
      list, Json(options_.model_name).dump(), tokens, tokens);
  return response;
}

}  // namespace strata::server
