# Helpers shared by the rooms, the tests and the fuzz targets.

# Warnings, sanitizers and floating-point rules that hold for every target.
function(strata_target name)
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
  # No silent contraction: a fused multiply-add is written where it is meant, so that the same
  # formula gives the same bits wherever it is compiled.
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wshadow -Wno-psabi -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees overlapping copies in std::string's operator+ that are not there (bug 105329).
    target_compile_options(${name} PRIVATE -Wno-restrict)
  endif()
  if(STRATA_WERROR)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
  if(STRATA_SANITIZE)
    target_compile_options(${name} PUBLIC -fsanitize=${STRATA_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # The sanitizers' own code makes GCC see uninitialised values that are not there.
      target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)
    endif()
    target_link_options(${name} PUBLIC -fsanitize=${STRATA_SANITIZE})
  endif()
endfunction()

# strata_room(name deps...): a static library of every .cpp under src/<name>.
function(strata_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${name}/*.cpp")
  if(sources)
    add_library(strata_${name} STATIC ${sources})
  else()
    file(WRITE "${CMAKE_BINARY_DIR}/empty_${name}.cpp" "")
    add_library(strata_${name} STATIC "${CMAKE_BINARY_DIR}/empty_${name}.cpp")
  endif()
  strata_target(strata_${name})
  target_link_libraries(strata_${name} PUBLIC ${ARGN})
  if(name MATCHES "^(base|gguf)$")
    target_compile_options(strata_${name} PRIVATE -Wconversion)
  endif()
endfunction()

# The files of web/ as a source of the target.
function(strata_embed_page target)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/web/*.html"
    "${CMAKE_SOURCE_DIR}/web/*.css" "${CMAKE_SOURCE_DIR}/web/*.js" "${CMAKE_SOURCE_DIR}/web/*.svg")
  set(source "${CMAKE_BINARY_DIR}/page_files.cpp")
  set(script "${CMAKE_SOURCE_DIR}/cmake/embed.cmake")
  add_custom_command(OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${CMAKE_SOURCE_DIR}/web" "-DOUTPUT=${source}" -P "${script}"
    DEPENDS ${files} "${script}" VERBATIM COMMENT "Embedding the web page")
  target_sources(${target} PRIVATE "${source}")
endfunction()

# CPU kernels are compiled once per instruction set, and only those files get the flags:
# src/device/cpu/**/*.<isa>.cpp.
function(strata_cpu_isa_flags)
  set(avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(avx512vnni ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mavx512vnni)
  # Optimised code with a sanitizer's checks in it takes minutes to compile and is slow all the same.
  set(level -O3)
  if(STRATA_SANITIZE)
    set(level -O1)
  endif()
  set(amx ${avx512vnni} -mamx-tile -mamx-int8)
  foreach(isa IN ITEMS generic avx2 avx512vnni amx)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/device/cpu/*.${isa}.cpp")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${level};${${isa}}")
    else()
      set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${level}")
    endif()
  endforeach()
endfunction()

# strata_test(room deps...): one GoogleTest binary of every .cpp under tests/<room>.
function(strata_test room)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(test_${room} ${sources})
  strata_target(test_${room})
  target_include_directories(test_${room} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(test_${room} PRIVATE ${ARGN} GTest::gtest_main)
  target_compile_definitions(test_${room} PRIVATE
    STRATA_SOURCE_DIR="${CMAKE_SOURCE_DIR}" STRATA_SHARED_DIR="${STRATA_SHARED}"
    STRATA_BINARY="${CMAKE_BINARY_DIR}/strata")
  set_target_properties(test_${room} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  gtest_discover_tests(test_${room} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${room}/"
    PROPERTIES TIMEOUT 600)
endfunction()
