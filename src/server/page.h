// The web page: files of web/, built into the program, and what they are served with.
//
// Purpose: a page that works without the internet and lets nothing in that is not its own: a strict
// content security policy, no inline script, no frames. The files are open to all, as they hold
// nothing of anybody; every address that answers with something asks for the key.
// Not for: what the page asks for (api.h, memory.cpp).
// Ownership: the files are constants.
// Threads: safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/http.h"

namespace strata::server {

struct PageFile {
  std::string_view path;  // "/" or "/web/app.js"
  std::string_view type;
  std::string_view tag;  // ETag: from the content
  std::string_view body;
};

// Every file of the page. Made by cmake/embed.cmake.
std::span<const PageFile> page_files();

// Whether the path is one of the page's; "/index.html" is "/".
bool is_page(const std::string& path);

// GET and HEAD of a path for which is_page(): the file, or 304 when the client has it.
HttpResponse page(const HttpRequest& request);

}  // namespace strata::server
