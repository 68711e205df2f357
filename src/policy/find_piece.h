// Searches a text for a piece in time linear in both, for any input, and without allocating. Pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::policy {

// The index of the first occurrence; npos: there is none. `steps` grows by the number of bytes that
// were compared, at most 8 * (text.size() + piece.size()) + 512.
size_t find_piece(std::string_view text, std::string_view piece, uint64_t& steps);

// Does the pattern, in which every `*` stands for any run of bytes, match the whole text? `steps`
// as above.
bool wildcard_fits(std::string_view pattern, std::string_view text, uint64_t& steps);

}  // namespace sluice::policy
