#include "server/page.h"

#include <algorithm>

namespace strata::server {
namespace {

const PageFile* find(const std::string& path) {
  const std::string_view wanted = path == "/index.html" ? std::string_view("/") : path;
  const auto files = page_files();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const PageFile& file) { return file.path == wanted; });
  return found == files.end() ? nullptr : &*found;
}

// Only scripts and styles of this server run, and they talk to this server only: what a model
// writes can neither run nor send anything anywhere.
constexpr const char* k_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// A list of tags, weak ones too, as If-None-Match has it.
bool has_tag(const std::string& list, std::string_view tag) {
  return list == "*" || list.find(tag) != std::string::npos;
}

}  // namespace

bool is_page(const std::string& path) { return find(path) != nullptr; }

HttpResponse page(const HttpRequest& request) {
  const PageFile& file = *find(request.path);
  HttpResponse out;
  out.type = std::string(file.type);
  out.headers.emplace("Content-Security-Policy", k_policy);
  out.headers.emplace("X-Content-Type-Options", "nosniff");
  out.headers.emplace("X-Frame-Options", "DENY");
  out.headers.emplace("Referrer-Policy", "no-referrer");
  out.headers.emplace("Cross-Origin-Opener-Policy", "same-origin");
  out.headers.emplace("Cross-Origin-Resource-Policy", "same-origin");
  out.headers.emplace("ETag", std::string(file.tag));
  // Kept, but asked for again each time: a new program brings a new page.
  out.headers.emplace("Cache-Control", "no-cache");
  if (has_tag(request.header("if-none-match"), file.tag)) {
    out.status = 304;
    return out;
  }
  out.body = std::string(file.body);
  return out;
}

}  // namespace strata::server
