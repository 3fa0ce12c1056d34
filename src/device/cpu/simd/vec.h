// The vector wrapper of the instruction set that is being compiled, named by STRATA_VECTORS.
#pragma once

#include STRATA_VECTORS

// STRATA_UNROLL: before a loop with a constant number of rounds whose arrays of vectors belong in
// registers. STRATA_INLINE: for the pieces of a kernel that hand over registers full of vectors.
// Neither where vectors are arrays (portable code), nor where a sanitizer follows every step: there
// they would only make the compiler work for minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRATA_AS_WRITTEN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STRATA_AS_WRITTEN
#endif
#endif
#if defined(STRATA_AS_WRITTEN)
#define STRATA_UNROLL(n)
#define STRATA_INLINE inline
#define STRATA_LAMBDA_INLINE
#else
#define STRATA_PRAGMA(text) _Pragma(#text)
#define STRATA_UNROLL(n) STRATA_PRAGMA(GCC unroll n)
#define STRATA_INLINE inline __attribute__((always_inline))
#define STRATA_LAMBDA_INLINE __attribute__((always_inline))
#endif
