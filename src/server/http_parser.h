// HTTP/1.1 requests out of the bytes of a connection, however these are cut into pieces.
//
// Strict where leniency lets two readers of the same bytes see different requests: lines end in
// CRLF, names are tokens, a length is given once or the body is chunked, never both.
// Not for: sockets, time (http.cpp).
// Errors: none is thrown. What cannot be taken gives a status and says why; what follows on such a
// connection means nothing.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http.h"

namespace strata::server {

struct HttpLimits {
  size_t line = 8 << 10;   // of the first line
  size_t head = 64 << 10;  // with all fields
  size_t fields = 100;
  uint64_t body = uint64_t{64} << 20;
};

class HttpParser {
 public:
  enum class State { head, body, done, failed };

  explicit HttpParser(const HttpLimits& limits) : limits_(limits) {}

  // Takes what belongs to this request; how many bytes that was. When the head is through it
  // returns once, in State::body or ::done, so that the head can be looked at.
  size_t feed(std::string_view bytes);
  State state() const { return state_; }
  // A byte of the request is there.
  bool begun() const { return state_ != State::head || !head_.empty(); }

  // From State::body on.
  HttpRequest& request() { return request_; }
  bool keep_alive() const { return keep_alive_; }
  bool is_http_1_0() const { return minor_ == 0; }
  bool expects_continue() const { return expects_continue_; }
  bool chunked() const { return chunked_; }
  uint64_t content_length() const { return length_; }

  // In State::failed.
  int status() const { return status_; }
  const std::string& problem() const { return problem_; }

  // In State::done: the request; the next one may come.
  HttpRequest take();

 private:
  enum class Chunk { size, data, data_end, trailer };

  void fail(int status, std::string problem);
  void parse_head();
  bool parse_first_line(std::string_view line);
  bool parse_target(std::string_view target);
  bool parse_field(std::string_view line);
  void understand_fields();
  size_t feed_chunk(std::string_view bytes);
  bool line_of(std::string_view bytes, size_t& taken);

  HttpLimits limits_;
  State state_ = State::head;
  std::string head_;
  HttpRequest request_;
  int minor_ = 1;
  bool keep_alive_ = true, expects_continue_ = false, chunked_ = false;
  uint64_t length_ = 0;
  Chunk chunk_ = Chunk::size;
  uint64_t chunk_left_ = 0;
  std::string line_;          // a chunk's size, or a trailer
  size_t trailer_bytes_ = 0;  // so far
  int status_ = 0;
  std::string problem_;
};

// Undoes %xx. False when that is not what follows a '%', or for a zero byte.
bool percent_decode(std::string_view text, std::string& out);

}  // namespace strata::server
