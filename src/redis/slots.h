// Hash slots of Redis Cluster: which of the 16,384 slots a key is in, and the tag that puts all
// keys of one actor into the same slot. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::redis {

inline constexpr size_t slot_count = 16'384;

// CRC16 (XMODEM) of the key or, if it is not empty, of the text between the key's first `{` and the
// next `}`.
uint16_t slot_of(std::string_view key);

// Appends `{xxxxxxxx}`, hexadecimal digits of a hash of the actor's values. It is the same in every
// process; no byte of an actor can end the tag or begin another. Servers must agree on it, so it
// has no secret: a client that chooses actors can choose their slot, as with any key of Redis
// Cluster.
void append_tag(std::string& out, std::string_view actor);
inline constexpr size_t tag_size = 10;

// `text` without the tag at its beginning; `text` itself if it has none.
std::string_view without_tag(std::string_view text);

}  // namespace sluice::redis
