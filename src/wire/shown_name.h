// A counter's name as HTTP shows and addresses it: whole where it has at most
// base::bounds::shown_name_bytes_max bytes, else by its beginning, its length and a digest. The
// digest is SHA-256, as keys are what clients send and no client may find two with the same one.
// Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::wire {

// The text itself, or its beginning, which ends where a character of UTF-8 does.
std::string_view shown_beginning(std::string_view text);
inline bool is_shown_whole(std::string_view text) {
  return shown_beginning(text).size() == text.size();
}

// 64 hexadecimal digits.
std::string name_digest(std::string_view name);

// What addresses a name that is not shown whole, besides its beginning.
struct NameMark {
  uint64_t bytes = 0;
  std::string digest;

  bool fits(std::string_view name) const {
    return name.size() == bytes && name_digest(name) == digest;
  }
};

// What follows /v1/counters/: the name percent-encoded, or its beginning with a query:
// `BEGINNING?bytes=N&digest=D`.
std::string path_of_name(std::string_view name);

// Of such a query; nothing: there is no mark in it, or none that is well-formed (`ill_formed`).
std::optional<NameMark> mark_of(std::string_view query, bool& ill_formed);

}  // namespace sluice::wire
