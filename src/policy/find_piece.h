// Where a text holds a piece, in time linear in both whatever they are, and without memory. Pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::policy {

// The first place; npos: none. `steps` grows by the bytes that were looked at, which are at most
// 8 * (text.size() + piece.size()) + 512.
size_t find_piece(std::string_view text, std::string_view piece, uint64_t& steps);

// Does the pattern, in which every `*` is any run of bytes, fit the whole text? `steps` as above.
bool wildcard_fits(std::string_view pattern, std::string_view text, uint64_t& steps);

}  // namespace sluice::policy
