// Text that clients and servers sent, made fit for a terminal: nothing in it moves the cursor,
// changes colours, hides or turns round other text, and its width is known. UTF-8 stays as it is.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::config {

// `text` on one line. Escaped are control characters (\n, \x1b, \u{9b}), bytes that are not UTF-8
// (\xff), and characters without a place of their own: marks of direction, joiners, more than four
// combining marks in a row.
std::string on_screen(std::string_view text);

// The same of each line of a text, which keeps its lines.
std::string on_screen_lines(std::string_view text);

// How many columns a text that on_screen has made takes.
size_t columns_of(std::string_view text);

// A text that on_screen has made, cut to so many columns; "…" stands for the rest.
std::string cut_to(std::string_view text, size_t columns);

// The same, filled up with blanks: behind, or in front where it is to stand at the right.
std::string fitted(std::string_view text, size_t columns, bool right = false);

}  // namespace sluice::config
