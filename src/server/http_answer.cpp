#include "server/http_answer.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <ctime>
#include <random>

#include "base/error.h"
#include "base/json.h"

namespace strata::server {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 400 ? "OK" : "Error";
  }
}

std::string head(const HttpRequest& request, const HttpResponse& response, bool keep) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  const auto add = [&](std::string_view name, std::string_view value) {
    const bool clean = std::all_of(value.begin(), value.end(), [](unsigned char c) {
      return c == '\t' || (c >= 0x20 && c != 0x7f);
    });
    if (clean) out.append(name).append(": ").append(value).append("\r\n");
  };
  char date[64];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  if (std::strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &parts) > 0) add("Date", date);
  if (response.status != 204 && response.status != 304) add("Content-Type", response.type);
  if (!request.id.empty()) add("X-Request-Id", request.id);
  for (const auto& [name, value] : response.headers) add(name, value);
  add("Connection", keep ? "keep-alive" : "close");
  return out;
}

}  // namespace

std::string answer_text(const HttpRequest& request, const HttpResponse& response, bool keep) {
  std::string out = head(request, response, keep);
  if (response.status == 204 || response.status == 304) return out + "\r\n";
  out += fmt::format("Content-Length: {}\r\n\r\n", response.body.size());
  if (request.method != "HEAD") out += response.body;
  return out;
}

std::string stream_head(const HttpRequest& request, const HttpResponse& response, bool keep,
                        bool chunked) {
  std::string out = head(request, response, keep);
  // Proxies are not to wait for more of it.
  out += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (chunked) out += "Transfer-Encoding: chunked\r\n";
  return out + "\r\n";
}

std::string request_id(const std::string& given) {
  const bool usable = !given.empty() && given.size() <= 128 &&
                      std::all_of(given.begin(), given.end(), [](unsigned char c) {
                        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
                      });
  if (usable) return given;
  // Unlike those of an earlier run, whose log it may share.
  static const uint32_t k_run = std::random_device{}();
  static std::atomic<uint64_t> count{0};
  return fmt::format("req-{:08x}-{}", k_run, ++count);
}

HttpResponse http_error(int status, const std::string& message) {
  const char* type = status == 503   ? "unavailable_error"
                     : status >= 500 ? "server_error"
                                     : "invalid_request_error";
  HttpResponse out;
  out.status = status;
  out.body =
      Json::object(
          {{"error",
            Json::object(
                {{"message", message}, {"type", type}, {"param", Json()}, {"code", status}})}})
          .dump();
  return out;
}

}  // namespace strata::server
