// Makes text from clients and servers safe for a terminal: the result cannot move the cursor,
// change colours, or hide or reverse other text, and its width is known; base/printable.h is for
// lines of a log, which keep all but control characters. UTF-8 is kept. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::config {

// `text` on one line. It escapes control characters (\n, \x1b, \u{9b}), bytes that are not UTF-8
// (\xff), and characters without a column of their own: marks of direction, joiners, and combining
// marks after four in a row.
std::string on_screen(std::string_view text);

// The same for each line of a text; line ends are kept.
std::string on_screen_lines(std::string_view text);

// The number of columns of a text that on_screen returned.
size_t columns_of(std::string_view text);

// A text that on_screen returned, cut to so many columns; then it ends with "…".
std::string cut_to(std::string_view text, size_t columns);

// The same, filled with blanks at the end, or at the beginning if `right` is true.
std::string fitted(std::string_view text, size_t columns, bool right = false);

}  // namespace sluice::config
