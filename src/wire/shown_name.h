// A counter's name as HTTP shows and addresses it: whole if it has at most
// base::bounds::shown_name_bytes_max bytes, otherwise by its beginning, its length and a digest.
// The digest is SHA-256, because clients choose keys, and must not be able to find two with the
// same digest. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::wire {

// The text itself, or its beginning up to the end of a UTF-8 character.
std::string_view shown_beginning(std::string_view text);
inline bool is_shown_whole(std::string_view text) {
  return shown_beginning(text).size() == text.size();
}

// The digest of the name: 64 hexadecimal digits.
std::string name_digest(std::string_view name);

// Identifies a name that is not shown whole, together with its beginning.
struct NameMark {
  uint64_t bytes = 0;
  std::string digest;

  bool fits(std::string_view name) const {
    return name.size() == bytes && name_digest(name) == digest;
  }
};

// The text after /v1/counters/: the name, percent-encoded, or its beginning with a query, as in
// `BEGINNING?bytes=N&digest=D`.
std::string path_of_name(std::string_view name);

// The mark in such a query. Empty: the query has no mark, or if `ill_formed` is set, an ill-formed
// one.
std::optional<NameMark> mark_of(std::string_view query, bool& ill_formed);

}  // namespace sluice::wire
