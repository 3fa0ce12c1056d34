// Reads GBNF, the grammar notation of llama.cpp, into trees.
//
// Purpose: rules `name ::= ...`, literals, character classes, `.`, groups, alternatives,
// repetitions * + ? {n} {n,} {n,m}, comments; newlines inside groups, after ::= and after |.
// Errors: ErrorCode::bad_request with line, column and what would be right: bad syntax, an unknown
// or twice defined rule, no `root`, left recursion, and what is larger than the limits.
// Time: linear in the text.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/grammar/ast.h"

namespace strata::text::grammar {

constexpr size_t k_max_grammar_bytes = size_t{4} << 20;
constexpr uint32_t k_max_rules = 50'000;
constexpr uint32_t k_max_group_depth = 100;
constexpr uint32_t k_max_repeat = 1'000'000'000;
constexpr uint32_t k_max_repeat_operators = 8;  // on one thing, as in x{2}{3}

Ast parse_gbnf(std::string_view text);

// Long lists of alternatives that begin with text become trees, so that few are open at any time,
// however long the list. The language stays as it is.
void share_beginnings(Ast& ast);

// ErrorCode::bad_request when a rule can call itself before it has read anything.
void refuse_left_recursion(const Ast& ast);

}  // namespace strata::text::grammar
