// The vector wrapper of the instruction set that is being compiled, named by STRATA_VECTORS.
#pragma once

#include STRATA_VECTORS

// Before a loop with a constant number of rounds whose arrays of vectors belong in registers. Not
// where a sanitizer follows every step: there it would only make the compiler work for minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRATA_UNROLL(n)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STRATA_UNROLL(n)
#endif
#endif
#if !defined(STRATA_UNROLL)
#define STRATA_PRAGMA(text) _Pragma(#text)
#define STRATA_UNROLL(n) STRATA_PRAGMA(GCC unroll n)
#endif
