#include "protocol/resp/glob.h"

#include <algorithm>
#include <cstddef>

namespace sluice::resp {
namespace {

// The element of a pattern that begins at an index: `fits`: it matches the character; `next`: the
// index of the element after it.
struct Element {
  bool fits;
  size_t next;
};

Element read_set(std::string_view pattern, size_t at, char c) {
  size_t i = at + 1;
  const bool negated = i < pattern.size() && pattern[i] == '^';
  if (negated) ++i;
  bool found = false;
  for (; i < pattern.size() && pattern[i] != ']'; ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      found |= pattern[++i] == c;
    } else if (i + 2 < pattern.size() && pattern[i + 1] == '-') {
      const auto from = static_cast<unsigned char>(pattern[i]),
                 to = static_cast<unsigned char>(pattern[i + 2]),
                 it = static_cast<unsigned char>(c);
      found |= std::min(from, to) <= it && it <= std::max(from, to);
      i += 2;
    } else {
      found |= pattern[i] == c;
    }
  }
  return {found != negated, std::min(i + 1, pattern.size())};
}

Element read_element(std::string_view pattern, size_t at, char c) {
  if (pattern[at] == '?') return {true, at + 1};
  if (pattern[at] == '[') return read_set(pattern, at, c);
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  return {pattern[at] == c, at + 1};
}

}  // namespace

bool fits_glob(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0;
  size_t star = pattern.npos, behind_star = 0;  // after the last star; the end of its text
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      behind_star = t;
      continue;
    }
    if (p < pattern.size()) {
      const Element element = read_element(pattern, p, text[t]);
      if (element.fits) {
        p = element.next;
        ++t;
        continue;
      }
    }
    if (star == pattern.npos) return false;
    p = star;  // lets the star match one more character
    t = ++behind_star;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace sluice::resp
