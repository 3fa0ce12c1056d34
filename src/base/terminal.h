// What kind of place standard output and standard error are.
//
// Purpose: decide whether colour and redrawing make sense, and how wide a line may be.
// Not for: line editing.
// Threads: any; the answers are asked of the system each time.
#pragma once

#include <string>
#include <string_view>

namespace strata::terminal {

enum class Stream { input = 0, output = 1, error = 2 };

bool is_terminal(Stream stream);

// Columns of the terminal; `fallback` when the stream is none. COLUMNS overrides when it is a
// number from 20 to 1000.
int width(Stream stream, int fallback = 100);

// Colour makes sense: a terminal that is not "dumb", and NO_COLOR is not set (to anything but "").
bool use_colour(Stream stream);

enum class Style { bold, dim, red, green, yellow, cyan };

// `text` in a style where the stream takes colour, else as it is.
std::string styled(Stream stream, Style style, std::string_view text);

// Columns that the text takes: code points, with combining marks as none and wide East Asian
// characters and emoji as two. Enough for aligning tables, not a full Unicode implementation.
int display_width(std::string_view text);

}  // namespace strata::terminal
