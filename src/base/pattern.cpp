#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/pattern.h"

#include <pcre2.h>

#include "base/error.h"

namespace strata {
namespace {

constexpr uint32_t k_match_limit = 100000;

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Pattern::Pattern(const std::string& pattern, const std::string& origin) {
  int error = 0;
  size_t offset = 0;
  auto made = std::make_shared<Code>();
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), 0,
                             &error, &offset, nullptr);
  if (made->code == nullptr) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof text);
    fail(ErrorCode::usage, "{}: not a pattern, at character {}: {}", printable(origin), offset + 1,
         reinterpret_cast<const char*>(text));
  }
  made->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(made->context, k_match_limit);
  pcre2_set_heap_limit(made->context, 1u << 14);  // KiB
  code_ = std::move(made);
}

bool Pattern::matches(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  // 0: it matches, and has more groups than there is room for; nobody asks where they are.
  return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                     data.get(), code_->context) >= 0;
}

}  // namespace strata
