// Numbers as people write them in configuration: sizes `64KiB`, `2GiB`, counts `10_000`, `5k`,
// `2M`, lengths of time `250ms`, `1h`. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice::base {

// A count: digits that may be grouped by single `_`, and `k` (thousand) or `M` (million) behind.
// Nothing: it is not a count, or above 2^64-1.
std::optional<uint64_t> parse_count(std::string_view text);

// A size in bytes: a count, and `B`, `KiB`, `MiB`, `GiB`, `TiB`, `kB`, `MB`, `GB` or `TB` behind,
// blanks between allowed. Without a unit it is bytes.
std::optional<uint64_t> parse_size(std::string_view text);

// The shortest exact size that parse_size reads back: "1GiB", "1536MiB", "1000B".
std::string format_size(uint64_t bytes);

// A length of time: digits that may be grouped by single `_`, and `us`, `ms`, `s`, `m`, `h` or `d`
// behind. Nothing: it is none, or above 2^63-1 us.
std::optional<Duration> parse_duration(std::string_view text);

// A length of time for people, in at most four units: "1h", "59m57s", "250ms", "0s".
std::string format_duration(Duration length);

// The same in one unit, exactly, as parse_duration reads it: "90s", "1h", "250ms".
std::string spell_duration(Duration length);

// A port: decimal digits, at most 65535.
std::optional<uint16_t> parse_port(std::string_view text);

// "10,000"
std::string grouped(uint64_t n);

// "1 rule", "2 rules".
std::string counted(uint64_t n, std::string_view noun);

}  // namespace sluice::base
