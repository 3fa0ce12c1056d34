# Turns the files of the web page into a C++ source: cmake -DFOLDER=web -DOUTPUT=page_files.cpp -P.
# index.html is served as "/", the others below /web/.
file(GLOB_RECURSE names RELATIVE "${FOLDER}" "${FOLDER}/*.html" "${FOLDER}/*.css" "${FOLDER}/*.js"
  "${FOLDER}/*.svg")
list(SORT names)
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")
set(arrays "")
set(rows "")
set(number 0)
foreach(name IN LISTS names)
  # Indentation is for readers of the source; without it the page is an eighth smaller.
  file(READ "${FOLDER}/${name}" bytes HEX)
  string(REGEX REPLACE "0a(20)+" "0a" bytes "${bytes}")
  string(SHA256 hash "${bytes}")
  string(SUBSTRING "${hash}" 0 20 hash)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  # Lines that tools can look at.
  string(REGEX REPLACE "(................................................................................)"
    "\\1\n" bytes "${bytes}")
  string(REGEX MATCH "[a-z]+$" ending "${name}")
  set(path "/web/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  # The byte at the end is for files that are empty.
  string(APPEND arrays "constexpr unsigned char k_file_${number}[] = {\n${bytes}0};\n")
  string(APPEND rows "    {\"${path}\", \"${types_${ending}}\", \"\\\"${hash}\\\"\",\n"
    "     {reinterpret_cast<const char*>(k_file_${number}), sizeof(k_file_${number}) - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/embed.cmake from the files of web/.
#include \"server/page.h\"

namespace strata::server {
namespace {

${arrays}
const PageFile k_files[] = {
${rows}};

}  // namespace

std::span<const PageFile> page_files() { return k_files; }

}  // namespace strata::server
")
