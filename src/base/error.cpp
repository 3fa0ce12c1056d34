#include "base/error.h"

#include "base/utf8.h"

namespace strata {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::io:
      return "io";
    case ErrorCode::bad_file:
      return "bad_file";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::does_not_fit:
      return "does_not_fit";
    case ErrorCode::bad_request:
      return "bad_request";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return 2;
    case ErrorCode::does_not_fit:
      return 3;
    default:
      return 1;
  }
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    if (out.size() >= max_bytes) {
      out += "...";
      break;
    }
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid || c.code_point < 0x20 || (c.code_point >= 0x7f && c.code_point < 0xa0)) {
      for (size_t i = 0; i < c.length; ++i) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + i]));
      }
    } else {
      out.append(text.substr(at, c.length));
    }
    at += c.length;
  }
  return out;
}

}  // namespace strata
