// Text from outside (a file, a client, another server) made fit for a terminal or a log line.
#pragma once

#include <string>
#include <string_view>

namespace sluice::base {

// Appends `text` on one line and in UTF-8: control characters, and bytes that are not UTF-8, are
// shown escaped (\n, \r, \t, \x1b, \u{9b}, \xff), all else as it is.
void append_printable(std::string& out, std::string_view text);

// The same as a string, of whole characters in the first bytes_max bytes of `text`; "..." stands
// for the rest.
std::string printable(std::string_view text, size_t bytes_max = std::string_view::npos);

}  // namespace sluice::base
