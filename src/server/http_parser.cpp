#include "server/http_parser.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace strata::server {
namespace {

constexpr size_t k_chunk_line = 256, k_method = 32;

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) !=
                          std::string_view::npos);
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Whether a comma separated list has the word.
bool lists(const std::string& value, std::string_view word) {
  const std::string text = lower(value);
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (trimmed(std::string_view(text).substr(at, end - at)) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

bool percent_decode(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return false;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return false;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == 0) return false;
    out += c;
  }
  return true;
}

void HttpParser::fail(int status, std::string problem) {
  state_ = State::failed;
  status_ = status;
  problem_ = std::move(problem);
}

HttpRequest HttpParser::take() {
  HttpRequest out = std::move(request_);
  *this = HttpParser(limits_);
  return out;
}

size_t HttpParser::feed(std::string_view bytes) {
  size_t taken = 0;
  if (state_ == State::head) {
    // Some clients end a body with an empty line too many.
    while (head_.empty() && taken < bytes.size() &&
           (bytes[taken] == '\r' || bytes[taken] == '\n')) {
      ++taken;
    }
    if (taken == bytes.size()) return taken;
    if (head_.empty() && !is_token(bytes.substr(taken, 1))) {
      fail(400, "this is not HTTP");
      return taken;
    }
    // The end is an empty line; that its lines end in CRLF is seen later.
    const size_t before = head_.size();
    const size_t room = limits_.head - before;
    head_.append(bytes.substr(taken, room));
    size_t end = std::string::npos;
    for (size_t at = before > 2 ? before - 2 : 0; (at = head_.find('\n', at)) != std::string::npos;
         ++at) {
      const std::string_view next = std::string_view(head_).substr(at + 1, 2);
      if (next.empty()) break;
      if (next[0] == '\n' || next == "\r\n") {
        end = at + (next[0] == '\n' ? 2 : 3);
        break;
      }
    }
    if (end != std::string::npos) {
      head_.resize(end);
      parse_head();
      return taken + (end - before);
    }
    const size_t first = std::min(head_.find('\n'), head_.size());
    if (first > limits_.line) {
      fail(414, "the address is too long");
    } else if (head_.size() >= limits_.head) {
      fail(431, "the header is larger than this server takes");
    }
    return taken + (head_.size() - before);
  }
  while (state_ == State::body && taken < bytes.size()) {
    if (chunked_) {
      taken += feed_chunk(bytes.substr(taken));
      continue;
    }
    const size_t wanted = static_cast<size_t>(length_) - request_.body.size();
    const std::string_view piece = bytes.substr(taken, wanted);
    request_.body.append(piece);
    taken += piece.size();
    if (request_.body.size() == length_) state_ = State::done;
  }
  return taken;
}

void HttpParser::parse_head() {
  std::string_view rest = head_;
  bool first = true;
  while (true) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.empty() || line.back() != '\r') return fail(400, "a line of the header ends wrongly");
    line.remove_suffix(1);
    const bool clean = std::all_of(line.begin(), line.end(), [](unsigned char c) {
      return c == '\t' || (c >= 0x20 && c != 0x7f);
    });
    if (!clean) return fail(400, "the header holds control characters");
    if (first) {
      first = false;
      if (line.size() > limits_.line) return fail(414, "the address is too long");
      if (!parse_first_line(line)) return;
    } else if (!line.empty()) {
      if (request_.headers.size() >= limits_.fields) {
        return fail(431, "the header has more fields than this server takes");
      }
      if (!parse_field(line)) return;
    }
  }
  head_.clear();
  understand_fields();
}

bool HttpParser::parse_first_line(std::string_view line) {
  const auto refuse = [&](int status, const char* problem) {
    fail(status, problem);
    return false;
  };
  const size_t one = line.find(' '), two = line.rfind(' ');
  if (one == std::string_view::npos || one == two) {
    return refuse(400, "the request's first line is not METHOD PATH VERSION");
  }
  const std::string_view method = line.substr(0, one), version = line.substr(two + 1);
  if (!is_token(method) || method.size() > k_method) return refuse(400, "the method is not a word");
  if (version.size() != 8 || version.substr(0, 5) != "HTTP/" || version[6] != '.' ||
      std::isdigit(static_cast<unsigned char>(version[5])) == 0 ||
      std::isdigit(static_cast<unsigned char>(version[7])) == 0) {
    return refuse(400, "the request's first line does not end in HTTP/1.1");
  }
  if (version[5] != '1') return refuse(505, "this server speaks HTTP/1.1");
  minor_ = version[7] - '0';
  request_.method = method;
  return parse_target(line.substr(one + 1, two - one - 1));
}

bool HttpParser::parse_target(std::string_view target) {
  request_.target = target;
  const auto refuse = [&] {
    fail(400, "the request's path cannot be read");
    return false;
  };
  if (target == "*" && request_.method == "OPTIONS") {
    request_.path = "*";
    return true;
  }
  // Proxies are sent whole addresses; the path is what counts.
  if (const std::string start = lower(target.substr(0, 8));
      start.rfind("http://", 0) == 0 || start == "https://") {
    const size_t host = target.find("//") + 2;
    const size_t path = std::min(target.find_first_of("/?", host), target.size());
    target.remove_prefix(path);
    if (target.empty() || target[0] == '?') {
      request_.path = "/";
      request_.query = target.empty() ? "" : target.substr(1);
      return true;
    }
  }
  if (target.empty() || target[0] != '/' || target.find_first_of(" \t") != std::string_view::npos) {
    return refuse();
  }
  const size_t question = std::min(target.find('?'), target.size());
  if (!percent_decode(target.substr(0, question), request_.path)) return refuse();
  if (question < target.size()) request_.query = target.substr(question + 1);
  return true;
}

bool HttpParser::parse_field(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    fail(400, "a line of the header is not NAME: VALUE");
    return false;
  }
  request_.headers.emplace(lower(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  return true;
}

void HttpParser::understand_fields() {
  const auto& headers = request_.headers;
  const size_t hosts = headers.count("host");
  if (hosts > 1 || (hosts == 0 && minor_ > 0)) return fail(400, "exactly one Host is needed");
  keep_alive_ = minor_ > 0;
  for (auto [at, end] = headers.equal_range("connection"); at != end; ++at) {
    if (lists(at->second, "keep-alive")) keep_alive_ = true;
    if (lists(at->second, "close")) {
      keep_alive_ = false;
      break;
    }
  }
  for (auto [at, end] = headers.equal_range("content-encoding"); at != end; ++at) {
    if (!at->second.empty() && lower(at->second) != "identity") {
      return fail(415, "compressed bodies are not taken");
    }
  }
  const size_t lengths = headers.count("content-length"),
               codings = headers.count("transfer-encoding");
  if (codings > 0) {
    if (lengths > 0 || codings > 1 || minor_ == 0) {
      return fail(400, "the body's length is given in more ways than one");
    }
    if (lower(headers.find("transfer-encoding")->second) != "chunked") {
      return fail(501, "the only Transfer-Encoding that is taken is chunked");
    }
    chunked_ = true;
  } else if (lengths > 0) {
    const std::string& text = headers.find("content-length")->second;
    if (lengths > 1 || text.empty() || text.size() > 18 ||
        !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return fail(400, "Content-Length is not one number");
    }
    length_ = std::stoull(text);
    if (length_ > limits_.body) return fail(413, "the body is larger than this server takes");
  }
  for (auto [at, end] = headers.equal_range("expect"); at != end; ++at) {
    if (lower(at->second) != "100-continue") return fail(417, "Expect may be 100-continue only");
    expects_continue_ = minor_ > 0;
  }
  state_ = chunked_ || length_ > 0 ? State::body : State::done;
}

// Collects a line that ends in CRLF in line_. False until it is whole, or when it is not one.
bool HttpParser::line_of(std::string_view bytes, size_t& taken) {
  const size_t end = bytes.find('\n');
  taken = end == std::string_view::npos ? bytes.size() : end + 1;
  line_.append(bytes.substr(0, std::min(taken, k_chunk_line + 1)));
  if (line_.size() > k_chunk_line) {
    fail(400, "a line between chunks is too long");
    return false;
  }
  if (end == std::string_view::npos) return false;
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    fail(400, "a line between chunks ends wrongly");
    return false;
  }
  line_.resize(line_.size() - 2);
  return true;
}

size_t HttpParser::feed_chunk(std::string_view bytes) {
  size_t taken = 0;
  if (chunk_ == Chunk::data) {
    const std::string_view piece = bytes.substr(0, static_cast<size_t>(chunk_left_));
    request_.body.append(piece);
    chunk_left_ -= piece.size();
    if (chunk_left_ == 0) chunk_ = Chunk::data_end;
    return piece.size();
  }
  if (!line_of(bytes, taken)) return taken;
  const std::string line = std::exchange(line_, {});
  switch (chunk_) {
    case Chunk::size: {
      size_t digits = 0;
      uint64_t size = 0;
      while (digits < line.size() && hex_digit(line[digits]) >= 0) {
        if (digits == 15) break;
        size = size * 16 + static_cast<uint64_t>(hex_digit(line[digits++]));
      }
      const std::string_view rest = trimmed(std::string_view(line).substr(digits));
      if (digits == 0 || (!rest.empty() && rest[0] != ';')) {
        fail(400, "a chunk's size is not a number");
      } else if (size > limits_.body - request_.body.size()) {
        fail(413, "the body is larger than this server takes");
      } else {
        chunk_left_ = size;
        chunk_ = size > 0 ? Chunk::data : Chunk::trailer;
      }
      break;
    }
    case Chunk::data_end:
      if (!line.empty()) fail(400, "a chunk is longer than it says");
      chunk_ = Chunk::size;
      break;
    case Chunk::trailer:
      // What they say is of no use here.
      trailer_bytes_ += line.size();
      if (line.empty()) {
        state_ = State::done;
      } else if (trailer_bytes_ > limits_.line) {
        fail(431, "the trailer is larger than this server takes");
      }
      break;
    case Chunk::data:
      break;
  }
  return taken;
}

}  // namespace strata::server
