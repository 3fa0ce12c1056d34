// What one rendering has at hand: its heap, its limits, its place in the template.
//
// Errors: fail() throws Failure, which the evaluator's edge turns into a strata::Error.
// Bounds: every evaluated node and every stretch of work inside a filter costs steps, every value
// made costs bytes, every nested evaluation a level; running out of one is a Failure.
// Threads: one rendering belongs to one thread.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace strata::text::jinja {

// An error inside a template, before it has been given the template's name.
struct Failure {
  std::string reason;
  uint32_t line = 0;
  bool raised = false;  // the template itself says so
};

struct Limits {
  uint64_t steps = 0;
  uint64_t bytes = 0;
  uint32_t calls = 0;  // nested macro calls
};

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<const String*, Value>> named;
};

// A global function. `call` gets the arguments as they were given.
struct FunctionDef {
  const char* name;
  Value (*call)(Runtime& runtime, const CallArgs& args);
};

// What a method does when its string is marked as safe HTML.
enum class MarkupRule : uint8_t {
  plain,   // gives a plain value
  keep,    // gives safe HTML
  escape,  // gives safe HTML and escapes its arguments first
};

// A method of a built-in type.
struct MethodDef {
  const char* name;
  Value (*call)(Runtime& runtime, const Value& self, const CallArgs& args);
  MarkupRule markup = MarkupRule::plain;
};

// Runs what is written in the template; implemented by the evaluator.
class Invoker {
 public:
  virtual ~Invoker() = default;
  virtual Value invoke(Macro& macro, const CallArgs& args) = 0;
  // loop(items) of a recursive loop.
  virtual Value recurse(Loop& loop, const Value& items) = 0;
};

class Runtime {
 public:
  Runtime(const Limits& limits, std::function<std::tm()> now)
      : limits_(limits), now_(std::move(now)) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Failure{fmt::format(format, std::forward<Args>(args)...), line};
  }

  // One unit of work: about what evaluating a node takes.
  void step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) fail_steps();
  }
  // Work that walks over so many bytes.
  void work(size_t bytes) { step(bytes / 32); }
  // Memory about to be taken. Nothing is given back before the rendering ends.
  void charge(uint64_t bytes) {
    require_bytes(bytes);
    bytes_ += bytes;
  }

  // Fails already now if so many bytes more would be too many: before a large copy is made.
  void require_bytes(uint64_t bytes) const {
    if (bytes > limits_.bytes - bytes_) fail_bytes();
  }

  template <class T, class... Args>
  T* make(uint64_t payload, Args&&... args) {
    charge(sizeof(T) + k_object_overhead + payload);
    return heap_.make<T>(std::forward<Args>(args)...);
  }

  Value text(Text value, bool markup = false);
  Value text(std::string value, bool from_template);
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  // An undefined value with this as its whole message.
  Value undefined(std::string message);
  Dict* dict() { return make<Dict>(0); }
  // Fails for a key that cannot be one.
  void set(Dict& dict, const Value& key, const Value& value);
  void push(List& list, const Value& value);

  std::tm now() const;

  // The line a failure is reported at.
  uint32_t line = 0;
  Invoker* invoker = nullptr;

 private:
  friend class Nested;
  friend class NestedCall;
  static constexpr uint64_t k_object_overhead = 24;  // of the allocator and the heap's list
  // Expressions and statements may nest so many times deeper than calls.
  static constexpr uint32_t k_nodes_per_call = 12;

  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_bytes() const;
  [[noreturn]] void fail_depth() const;

  Limits limits_;
  std::function<std::tm()> now_;
  Heap heap_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  uint32_t depth_ = 0;
  uint32_t calls_ = 0;
};

// Holds one level of nested evaluation, so that no template can exhaust the stack.
class Nested {
 public:
  explicit Nested(Runtime& runtime, uint32_t weight = 1) : runtime_(runtime), weight_(weight) {
    if (runtime_.depth_ + weight > runtime_.limits_.calls * Runtime::k_nodes_per_call) {
      runtime_.fail_depth();
    }
    runtime_.depth_ += weight;
  }
  ~Nested() { runtime_.depth_ -= weight_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Runtime& runtime_;
  uint32_t weight_;
};

// What a level of nested values counts: walking into one takes more stack than evaluating a node.
inline constexpr uint32_t k_value_weight = 4;

// Holds one level of nested macro calls; puts the line back when it ends well.
class NestedCall {
 public:
  explicit NestedCall(Runtime& runtime) : runtime_(runtime) {
    if (runtime_.calls_ >= runtime_.limits_.calls) runtime_.fail_depth();
    ++runtime_.calls_;
  }
  ~NestedCall() { --runtime_.calls_; }
  NestedCall(const NestedCall&) = delete;
  NestedCall& operator=(const NestedCall&) = delete;

 private:
  Runtime& runtime_;
};

// Calls a macro, function, method, joiner or loop.
Value call(Runtime& runtime, const Value& callee, const CallArgs& args);
Value call_method(Runtime& runtime, const MethodDef& method, const Value& self,
                  const CallArgs& args);
bool is_callable(const Value& value);

}  // namespace strata::text::jinja
