#include "policy/find_piece.h"

#include <algorithm>
#include <cstring>

namespace sluice::policy {

namespace {

constexpr size_t npos = std::string_view::npos;

// The greatest suffix of the piece in one order of bytes: where it begins, and its period.
struct Suffix {
  size_t begin, period;
};

Suffix greatest_suffix(std::string_view piece, bool reversed, uint64_t& steps) {
  // `begin`: where the greatest suffix so far begins; `from`: where the one begins that it is
  // compared with.
  size_t begin = 0, from = 1, offset = 0, period = 1;
  while (from + offset < piece.size()) {
    ++steps;
    const auto a = static_cast<unsigned char>(piece[from + offset]);
    const auto b = static_cast<unsigned char>(piece[begin + offset]);
    if (a == b) {
      if (++offset < period) continue;
      from += offset;
      offset = 0;
    } else if ((a < b) != reversed) {
      from += offset + 1;
      offset = 0;
      period = from - begin;
    } else {
      begin = from++;
      offset = 0;
      period = 1;
    }
  }
  return {begin, period};
}

// The two-way search of Crochemore and Perrin. The piece is cut so that a mismatch in its right
// part allows a shift by the number of bytes that matched there, and a mismatch in its left part
// allows a shift by the piece's period.
size_t find_two_way(std::string_view text, std::string_view piece, uint64_t& steps) {
  const size_t size = piece.size();
  const Suffix up = greatest_suffix(piece, false, steps),
               down = greatest_suffix(piece, true, steps);
  const auto [cut, period] = up.begin >= down.begin ? up : down;
  steps += cut;
  const bool repeats =
      cut + period <= size && std::memcmp(piece.data(), piece.data() + period, cut) == 0;
  // After a shift by the period of a periodic piece, its beginning is known to match already.
  const size_t shift = repeats ? period : std::max(cut, size - cut) + 1;
  size_t known = 0;
  for (size_t at = 0; at + size <= text.size();) {
    size_t i = std::max(cut, known);
    while (i < size && piece[i] == text[at + i]) ++i;
    steps += i - std::max(cut, known) + 1;
    if (i < size) {
      at += i - cut + 1;
      known = 0;
      continue;
    }
    i = cut;
    while (i > known && piece[i - 1] == text[at + i - 1]) --i;
    steps += cut - i + 1;
    if (i <= known) return at;
    at += shift;
    known = repeats ? size - period : 0;
  }
  return npos;
}

}  // namespace

size_t find_piece(std::string_view text, std::string_view piece, uint64_t& steps) {
  if (piece.empty()) return 0;
  if (text.size() < piece.size()) return npos;
  // First the quick way, from one occurrence of the first byte to the next, while it advances fast.
  const size_t last = text.size() - piece.size();
  constexpr size_t cost_of_call = 4, allowed = 256;
  for (size_t at = 0, wasted = 0; at <= last;) {
    if (wasted > allowed + at) {
      const size_t found = find_two_way(text.substr(at), piece, steps);
      return found == npos ? npos : at + found;
    }
    const void* const found = std::memchr(text.data() + at, piece.front(), last - at + 1);
    const size_t here = found == nullptr
                            ? last + 1
                            : static_cast<size_t>(static_cast<const char*>(found) - text.data());
    steps += here - at + 1;
    if (here > last) return npos;
    size_t same = 1;
    while (same < piece.size() && text[here + same] == piece[same]) ++same;
    steps += same;
    if (same == piece.size()) return here;
    wasted += same + cost_of_call;
    at = here + 1;
  }
  return npos;
}

// Each piece between two stars is matched at its first occurrence, because that leaves the most
// text for the pieces after it.
bool wildcard_fits(std::string_view pattern, std::string_view text, uint64_t& steps) {
  const size_t first = pattern.find('*');
  if (first == npos) {
    steps += std::min(pattern.size(), text.size());
    return pattern == text;
  }
  const size_t last = pattern.rfind('*');
  const std::string_view head = pattern.substr(0, first), tail = pattern.substr(last + 1);
  steps += head.size() + tail.size();
  if (text.size() < head.size() + tail.size() || !text.starts_with(head) || !text.ends_with(tail))
    return false;
  text = text.substr(head.size(), text.size() - head.size() - tail.size());
  std::string_view rest = pattern.substr(first, last - first);
  while (!rest.empty()) {
    rest.remove_prefix(1);  // a star
    const std::string_view piece = rest.substr(0, rest.find('*'));
    rest.remove_prefix(piece.size());
    const size_t at = find_piece(text, piece, steps);
    if (at == npos) return false;
    text.remove_prefix(at + piece.size());
  }
  return true;
}

}  // namespace sluice::policy
