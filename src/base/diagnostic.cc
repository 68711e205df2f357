#include "base/diagnostic.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/printable.h"

namespace sluice::base {

namespace {

constexpr size_t word_bytes_max = 64;

// Insertions, deletions, replacements and swaps of neighbours from `a` to `b`, both at most
// word_bytes_max long.
size_t edit_distance(std::string_view a, std::string_view b) {
  using Row = std::array<size_t, word_bytes_max + 1>;
  Row before{}, above{}, row{};
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = above;
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string to_string(const Diagnostic& d) {
  std::string out;
  if (!d.file.empty()) {
    append_printable(out, d.file);
    if (d.line > 0) out += ':' + std::to_string(d.line);
    if (d.line > 0 && d.column > 0) out += ':' + std::to_string(d.column);
    out += ": ";
  }
  out += d.severity == Diagnostic::Severity::error ? "error: " : "warning: ";
  if (!d.subject.empty()) {
    append_printable(out, d.subject);
    out += ": ";
  }
  append_printable(out, d.message);
  if (!d.remedy.empty()) {
    out += "; ";
    append_printable(out, d.remedy);
  }
  return out;
}

bool has_errors(const Diagnostics& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const Diagnostic& d) { return d.severity == Diagnostic::Severity::error; });
}

std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.size() > word_bytes_max) return {};
  size_t nearest_distance = std::max<size_t>(1, word.size() / 3) + 1;
  std::string_view nearest;
  for (const std::string_view candidate : known) {
    if (candidate.empty() || candidate.size() > word_bytes_max) continue;
    const size_t shorter = std::min(word.size(), candidate.size());
    const size_t longer = std::max(word.size(), candidate.size());
    if (longer - shorter >= nearest_distance) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < nearest_distance && distance < longer) {
      nearest_distance = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace sluice::base
