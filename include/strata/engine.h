// Strata's public interface: open a model, keep sequences, generate text.
//
// Purpose: what an embedding program, the verbs and the server use. One Engine holds one model on
// its devices; any number of Sessions (sequences with their past) share it.
// Errors: every function throws strata::Error (strata/error.h): typed, one line, with the way out.
// Ownership: Sessions must not outlive their Engine.
// Signals: opening a model installs a handler of SIGBUS, so that a file that becomes shorter while
// it is read is an error; other faults are passed on to the action that was there before.
// Threads: one thread at a time per Engine and its Sessions; cancellation flags and the read-only
// functions on text may be used from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/embedding.h"
#include "strata/error.h"
#include "strata/placement.h"
#include "strata/sampling.h"

namespace strata {

// The most that EngineOptions may ask for.
inline constexpr uint32_t k_max_context = 2147483647;
inline constexpr uint32_t k_max_batch = 1u << 20;
inline constexpr uint32_t k_max_ubatch = 1u << 16;

struct EngineOptions {
  std::string model;  // path of a GGUF file; any file of a split set
  PlacementOptions placement;
  uint32_t threads = 0;        // of each device while generating; 0: one per core
  uint32_t threads_batch = 0;  // while reading prompts; 0: as `threads`
  // Tokens in the cache, all sequences. Absent: what fits, up to the model's own context and to
  // 1,048,576 per sequence, whatever the file claims.
  std::optional<uint64_t> n_context;
  uint32_t n_sequences = 1;  // expected at once; only scales the automatic context
  uint32_t n_batch = 2048;   // most tokens handed over at once
  uint32_t n_ubatch = 512;   // most tokens computed at once
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  std::optional<std::string> chat_template;  // Jinja source instead of the model's own
  bool mmap = true;                  // weights are read from mapped files, else piece by piece
  bool mlock = false;                // weights, cache and buffers are kept from being swapped out
  std::optional<std::string> trace;  // file for a trace of what the devices do, written at the end
  // Bytes of weights loaded so far; may throw to cancel.
  std::function<void(uint64_t done, uint64_t total)> load_progress;
};

struct ModelInfo {
  std::string family;
  std::string name;
  uint64_t parameters = 0;
  uint32_t n_layers = 0;
  uint32_t n_embd = 0;
  uint32_t n_vocab = 0;   // rows of logits
  uint32_t n_tokens = 0;  // of the tokenizer, at most n_vocab
  uint64_t n_context_trained = 0;
  uint64_t n_context = 0;          // of one sequence, prompt and answer
  uint64_t n_cache = 0;            // tokens that the cache holds, of all sequences
  std::optional<Pooling> pooling;  // of embeddings, where the file names one
  std::string pipeline;  // "2 stages, copies=3 (auto: ...), +5.2 MiB", or "off (one stage)"
};

// Bytes that the engine holds on a device, by purpose: exactly what was planned.
struct MemoryUse {
  std::string device;
  std::string description;
  uint32_t threads = 0;
  uint64_t weights = 0;
  uint64_t kv_cache = 0;
  uint64_t compute = 0;  // activations, boundaries, logits, working memory
  uint64_t total() const { return weights + kv_cache + compute; }
};

// Planned, allocated and used bytes of one purpose on one device: all the same, or it is a fault.
struct MemoryAudit {
  std::string device;
  std::string purpose;
  uint64_t planned = 0;
  uint64_t allocated = 0;
  uint64_t used = 0;
};

// What a device did since the engine was opened.
struct DeviceUse {
  std::string device;
  double busy_seconds = 0;
  double copy_seconds = 0;
  uint64_t runs = 0;
};

// An assistant's call of a tool.
struct ChatToolCall {
  std::string id, name;
  std::string arguments;  // JSON, as the model wrote it
};

struct ChatMessage {
  std::string role;  // "system", "developer", "user", "assistant", "tool"
  std::string content;
  std::string reasoning = {};                 // of an assistant
  std::vector<ChatToolCall> tool_calls = {};  // of an assistant
  std::string tool_call_id = {}, name = {};   // of a tool: what its content is the result of
};

struct ChatOptions {
  bool add_generation_prompt = true;
  // JSON, a list of {"type": "function", "function": {"name", "description", "parameters"}}; empty:
  // none.
  std::string tools = {};
  // JSON, an object of what the template may be told besides, such as {"enable_thinking": false};
  // empty: nothing.
  std::string variables = {};
};

enum class StopReason {
  end_of_generation,  // the model ended the text
  length,             // max_tokens
  stop_string,
  context_full,
  cancelled,
};
const char* name_of(StopReason reason);

struct GenerateOptions {
  int64_t max_tokens = -1;  // -1: until the model ends or the context is full
  SamplingOptions sampling;
  std::vector<std::string> stop;
  bool show_special = false;  // control tokens appear in the text
  // Text that is certain, in order; together they are GenerateResult::text.
  std::function<void(std::string_view text)> on_text;
  std::function<void(const Sample& sample)> on_token;
  // Asked between steps.
  std::function<bool()> cancelled;
};

struct GenerateResult {
  std::string text;
  std::vector<TokenId> tokens;
  StopReason reason = StopReason::length;
  std::string stop_string;
  uint64_t seed = 0;
  uint32_t prompt_tokens = 0;  // of the whole prompt
  uint32_t cached_tokens = 0;  // of these, found in the cache
  double prompt_seconds = 0;   // reading the rest
  double generate_seconds = 0;
};

class Engine;

// One sequence and its past.
class Session {
 public:
  explicit Session(Engine& engine);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Continues `prompt`, the whole of it: what the cache already holds of its beginning is used.
  GenerateResult generate(std::span<const TokenId> prompt, const GenerateOptions& options);

  // Refuses, as generate() would, a prompt that is empty or longer than the context.
  void check_prompt(std::span<const TokenId> prompt) const;

  // Tokens that the cache holds.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  void clear();

 private:
  Engine& engine_;
  uint32_t sequence_;
  std::vector<TokenId> tokens_;
};

class Engine {
 public:
  static std::unique_ptr<Engine> open(const EngineOptions& options);
  ~Engine();

  const ModelInfo& info() const;
  std::vector<MemoryUse> memory() const;  // by device
  std::vector<MemoryAudit> audit_memory() const;
  std::vector<DeviceUse> device_use() const;
  // Writes EngineOptions::trace, where there is one; else that is done when the engine goes, when
  // nobody can be told of an error but in the log.
  void write_trace();

  // `add_special`: BOS and EOS as the model wants; `parse_special`: control tokens written out in
  // the text count as such (not for text of strangers).
  std::vector<TokenId> tokenize(std::string_view text, bool add_special = true,
                                bool parse_special = true) const;
  std::string detokenize(std::span<const TokenId> tokens, bool show_special = false) const;

  bool has_chat_template() const;
  // Its Jinja source; empty when there is none.
  const std::string& chat_template() const;
  // The conversation as the model's chat template puts it. Control tokens count only where the
  // template has them: a message cannot forge a turn. What the template does not know (a developer,
  // tools, calls, their results) is said in words that it does.
  std::vector<TokenId> chat_tokens(std::span<const ChatMessage> messages,
                                   const ChatOptions& options = {}) const;

  // Logits of the positions of `tokens` from `first` on, as a sequence of its own, in order. More
  // tokens than the context holds: ErrorCode::does_not_fit.
  void logits(std::span<const TokenId> tokens, size_t first,
              const std::function<void(size_t position, std::span<const float>)>& sink);

  // As logits(), of the hidden states after the final norm [n_embd], of which the head makes the
  // logits.
  void hidden_states(std::span<const TokenId> tokens, size_t first,
                     const std::function<void(size_t position, std::span<const float>)>& sink);

  // One vector for the tokens [n_embd], or one for each of them [tokens, n_embd] with
  // Pooling::none; as the model makes them, see normalise().
  std::vector<float> embed(std::span<const TokenId> tokens, Pooling pooling);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata
