// What constrained output costs per token: the mask and the step of the grammar, over a real
// vocabulary, first with nothing cached and then by later requests with the same schema.
//
//   grammar_masks VOCABULARY.gguf [tokens per second of decode, for the share]
//
// Answers are random walks: every token is one of those that the mask allows, most often a short
// way through the vocabulary, so that many states are met.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "gguf/file.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer.h"

namespace {

using namespace strata;

const std::vector<std::pair<const char*, const char*>> k_schemas = {
    {"any JSON object", ""},
    {"weather tool", R"({"type":"object","properties":{"city":{"type":"string"},
      "unit":{"enum":["celsius","fahrenheit"]},"days":{"type":"integer","minimum":1,"maximum":14}},
      "required":["city","unit"]})"},
    {"person", R"({"type":"object","properties":{"name":{"type":"string","maxLength":80},
      "age":{"type":"integer"},"email":{"type":"string","pattern":"^[a-z0-9.]+@[a-z0-9]+\\.[a-z]{2,6}$"},
      "address":{"type":"object","properties":{"street":{"type":"string"},"zip":{"type":"string",
      "pattern":"^[0-9]{5}$"}},"required":["street","zip"]}},"required":["name","age","email","address"]})"},
    {"list of records", R"({"type":"array","minItems":3,"maxItems":50,"items":{"type":"object",
      "properties":{"id":{"type":"integer"},"label":{"type":"string"},"score":{"type":"number"},
      "tags":{"type":"array","items":{"enum":["red","green","blue","other"]}},
      "when":{"type":"string","format":"date-time"}},"required":["id","label","score"]}})"},
    {"tree", R"({"$defs":{"node":{"type":"object","properties":{"value":{"type":"string"},
      "children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["value","children"]}},
      "$ref":"#/$defs/node"})"},
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Cost {
  uint64_t tokens = 0;
  double seconds = 0;
  double worst = 0;
};

// One answer of at most so many tokens.
void answer(text::GrammarMatcher matcher, std::mt19937& random, Cost& cost) {
  std::vector<uint32_t> mask(matcher.mask_words());
  std::vector<TokenId> allowed;
  for (int i = 0; i < 200 && !matcher.is_finished(); ++i) {
    double begun = now();
    matcher.mask(mask);
    double spent = now() - begun;
    allowed.clear();
    for (size_t w = 0; w < mask.size(); ++w) {
      for (uint32_t bits = mask[w]; bits != 0; bits &= bits - 1) {
        allowed.push_back(
            static_cast<TokenId>(32 * w + static_cast<uint32_t>(__builtin_ctz(bits))));
      }
    }
    if (allowed.empty()) break;
    const TokenId id = allowed[random() % allowed.size()];
    begun = now();
    const bool taken = matcher.accept(id);
    spent += now() - begun;
    if (!taken) std::abort();
    ++cost.tokens;
    cost.seconds += spent;
    cost.worst = std::max(cost.worst, spent);
  }
}

int run(const char* path, double rate) {
  const gguf::File file = gguf::File::open(path);
  const auto tokenizer = text::Tokenizer::load(file.metadata());
  double begun = now();
  const auto tokens = text::TokenTrie::make(*tokenizer);
  fmt::print("{} tokens, read for grammars in {:.0f} ms\n\n", tokens->size(),
             1e3 * (now() - begun));
  fmt::print(
      "| schema | compile ms | first answer us/token | worst ms | later us/token | worst ms |"
      " share of decode at {:.0f} tokens/s |\n|---|---:|---:|---:|---:|---:|---:|\n",
      rate);
  for (const auto& [name, source] : k_schemas) {
    begun = now();
    const std::string gbnf =
        *source == 0 ? text::json_object_grammar() : text::schema_grammar(Json::parse(source)).gbnf;
    const auto grammar = text::Grammar::parse(gbnf);
    const double compile = now() - begun;
    const text::GrammarMatcher first(grammar, tokens);
    std::mt19937 random(1);
    Cost cold, warm;
    answer(first, random, cold);
    for (int i = 0; i < 50; ++i) answer(first, random, warm);
    const auto each = [](const Cost& c) {
      return c.tokens > 0 ? 1e6 * c.seconds / static_cast<double>(c.tokens) : 0;
    };
    fmt::print("| {} | {:.1f} | {:.0f} | {:.2f} | {:.1f} | {:.2f} | {:.2f} % |\n", name,
               1e3 * compile, each(cold), 1e3 * cold.worst, each(warm), 1e3 * warm.worst,
               each(warm) * 1e-6 * rate * 100);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: grammar_masks VOCABULARY.gguf [tokens per second]\n");
    return 2;
  }
  try {
    return run(argv[1], argc > 2 ? std::atof(argv[2]) : 80);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
