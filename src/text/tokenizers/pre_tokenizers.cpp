#include "text/tokenizers/pre_tokenizers.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/suggest.h"

namespace strata::text {
namespace {

// The building blocks that the models' pattern files share.
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define LEAD R"([^\r\n\p{L}\p{N}]?)"
// The same without Han: what remains when every other general category and Han are taken away.
#define UPPER_NOT_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])"
#define LOWER_NOT_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])"

constexpr std::string_view k_llama3 =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" SPACES;
constexpr std::string_view k_qwen2 =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" SPACES;
constexpr std::string_view k_qwen35 =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" SPACES;
constexpr std::string_view k_gpt4o =
    LEAD UPPER "*" LOWER "+" CONTRACTION "?|" LEAD UPPER "+" LOWER "*" CONTRACTION
               R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" SPACES;
constexpr std::string_view k_tekken =
    LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" SPACES;
constexpr std::string_view k_kimi_k2 =
    R"(\p{sc:Han}+|)" LEAD UPPER_NOT_HAN "*" LOWER_NOT_HAN "+" CONTRACTION "?|" LEAD UPPER_NOT_HAN
    "+" LOWER_NOT_HAN "*" CONTRACTION R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" SPACES;
constexpr std::string_view k_gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view k_one_number = R"(\p{N})";
constexpr std::string_view k_numbers = R"(\p{N}+)";
constexpr std::string_view k_three_numbers = R"(\p{N}{1,3})";
constexpr std::string_view k_three_ascii_digits = "[0-9][0-9][0-9]";
constexpr std::string_view k_newline = R"([\r\n])";

constexpr std::string_view k_deepseek_v3_cjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)";
constexpr std::string_view k_deepseek_v3_words =
    R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" SPACES;

constexpr std::string_view k_deepseek_cjk =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
// Cased letters as the model's file lists them (not a class of any Unicode version).
constexpr std::string_view k_deepseek_llm_letters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)";
constexpr std::string_view k_deepseek_llm_punctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
// The file says \s+$. A run can only match from its first character, and looking there alone keeps
// the search linear; pieces hold no line ends at this stage.
constexpr std::string_view k_trailing_space = R"((?<!\s)\s+\z)";

const std::vector<PreTokenizerRule>& rules() {
  static const std::vector<PreTokenizerRule> table = {
      {.names = {"default", ""},
       .patterns = {R"([\p{P}$+<=>^~|]+)", k_gpt2, k_numbers, k_three_ascii_digits}},
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
                 "lfm2"},
       .patterns = {k_llama3},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe"}, .patterns = {k_llama3}},
      {.names = {"glm4", "chatglm-bpe"}, .patterns = {k_llama3}, .has_default_ids = false},
      {.names = {"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan"},
       .patterns = {k_qwen2}},
      {.names = {"qwen35"}, .patterns = {k_qwen35}},
      {.names = {"gpt-4o", "minimax-m2", "llama4", "kanana2"}, .patterns = {k_gpt4o}},
      {.names = {"kimi-k2"}, .patterns = {k_kimi_k2}},
      {.names = {"tekken"}, .patterns = {k_tekken}, .ignore_merges = true, .add_bos = true},
      {.names = {"deepseek-v3", "hunyuan-dense"},
       .patterns = {k_three_numbers, k_deepseek_v3_cjk, k_deepseek_v3_words}},
      {.names = {"deepseek-coder"},
       .patterns = {k_newline, R"(\s?\p{L}+)", R"(\s?\p{P}+)", k_deepseek_cjk, k_one_number}},
      {.names = {"deepseek-llm"},
       .patterns = {k_newline, k_deepseek_llm_letters, k_deepseek_llm_punctuation, k_trailing_space,
                    k_deepseek_cjk, k_numbers}},
      {.names = {"gpt-2", "mpt", "phi-2", "olmo", "jais", "trillion", "exaone4"},
       .patterns = {k_gpt2}},
      {.names = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"},
       .patterns = {k_one_number, k_gpt2}},
      {.names = {"falcon"}, .patterns = {R"([\p{P}$+<=>^~|`]+)", k_gpt2, k_three_ascii_digits}},
  };
  return table;
}

// The patterns mean Unicode's White_Space by \s; PCRE2 would add U+180E.
constexpr std::string_view k_white_space =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

std::string adapt_pattern(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      const char escaped = pattern[++i];
      if (escaped == 's' || escaped == 'S') {
        if (!in_class) out += escaped == 's' ? "[" : "[^";
        out += k_white_space;
        if (!in_class) out += ']';
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string pcre2_message(int code) {
  char text[256] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof(text));
  return text;
}

}  // namespace

struct PreTokenizer::Stage {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

const PreTokenizerRule& pre_tokenizer_rule(std::string_view name) {
  std::vector<std::string> known;
  for (const PreTokenizerRule& rule : rules()) {
    for (const std::string_view candidate : rule.names) {
      if (candidate == name) return rule;
      if (!candidate.empty()) known.emplace_back(candidate);
    }
  }
  fail(ErrorCode::unsupported, "tokenizer.ggml.pre is '{}', which is not known; known are {}",
       printable(name), join_names(known));
}

std::span<const PreTokenizerRule> pre_tokenizer_rules() { return rules(); }

PreTokenizer::PreTokenizer(const PreTokenizerRule& rule, bool allow_jit) {
  for (const std::string_view verbatim : rule.patterns) {
    const std::string pattern = adapt_pattern(verbatim);
    int error = 0;
    size_t offset = 0;
    auto stage = std::make_unique<Stage>();
    stage->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &offset,
                                    nullptr));
    if (!stage->code) {
      fail(ErrorCode::internal, "the pattern of pre-tokenizer '{}' does not compile: {} at {}",
           rule.names.front(), pcre2_message(error), offset);
    }
    stage->jit = allow_jit && pcre2_jit_compile(stage->code.get(), PCRE2_JIT_COMPLETE) == 0;
    stages_.push_back(std::move(stage));
  }
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, uint32_t base, std::vector<Piece>& pieces) const {
  if (text.empty()) return;
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  if (!match || !context) fail(ErrorCode::internal, "out of memory while splitting a text");
  // Every rule takes a few steps per character; the limits only guard against a fault in one.
  const uint32_t limit =
      static_cast<uint32_t>(std::min<uint64_t>(1'000'000 + uint64_t{64} * text.size(), UINT32_MAX));
  pcre2_set_match_limit(context.get(), limit);
  pcre2_set_heap_limit(context.get(), 1u << 18);  // KiB
  const size_t* const bounds = pcre2_get_ovector_pointer(match.get());

  std::vector<Piece> input{{0, static_cast<uint32_t>(text.size())}};
  std::vector<Piece> output;
  for (const auto& stage : stages_) {
    output.clear();
    const pcre2_code* code = stage->code.get();
    for (const Piece& piece : input) {
      const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data() + piece.begin);
      const size_t length = piece.end - piece.begin;
      size_t done = 0;  // everything before is in output
      size_t at = 0;
      while (at < length) {
        int found = PCRE2_ERROR_JIT_STACKLIMIT;
        if (stage->jit) {
          found = pcre2_jit_match(code, subject, length, at, 0, match.get(), context.get());
        }
        if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
          found = pcre2_match(code, subject, length, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                              match.get(), context.get());
        }
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0) {
          fail(ErrorCode::internal, "splitting a text failed: {}", pcre2_message(found));
        }
        const size_t begin = bounds[0];
        const size_t end = bounds[1];
        if (begin > done) {
          output.push_back({static_cast<uint32_t>(piece.begin + done),
                            static_cast<uint32_t>(piece.begin + begin)});
        }
        if (end > begin) {
          output.push_back({static_cast<uint32_t>(piece.begin + begin),
                            static_cast<uint32_t>(piece.begin + end)});
        }
        done = end;
        at = end > at ? end : at + 1;
      }
      if (done < length) {
        output.push_back({static_cast<uint32_t>(piece.begin + done), piece.end});
      }
    }
    input.swap(output);
  }
  for (const Piece& piece : input) pieces.push_back({piece.begin + base, piece.end + base});
}

}  // namespace strata::text
