// Hash slots of Redis Cluster: which of the 16,384 a key is in, and the tag that puts the keys of
// one actor into the same. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::redis {

inline constexpr size_t slot_count = 16'384;

// CRC16 (XMODEM) of the key, or of what is between its first `{` and the next `}` where that is not
// empty.
uint16_t slot_of(std::string_view key);

// Appends `{xxxxxxxx}`, hexadecimal digits of a hash of the actor's values. It is the same in every
// process; no byte of an actor can end the tag or begin another. As servers must agree on it, it
// has no secret: who chooses actors can choose their slot, as with any key of Redis Cluster.
void append_tag(std::string& out, std::string_view actor);
inline constexpr size_t tag_size = 10;

// What is behind the tag at the beginning of `text`. `text` itself where there is none.
std::string_view without_tag(std::string_view text);

}  // namespace sluice::redis
