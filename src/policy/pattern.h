// One condition's pattern over the value of one entry. Immutable after it is made; matching allocates nothing and takes
// time linear in the value times the pattern's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::policy {

class Pattern {
 public:
  // Divvy 1.7.1's own reading: `*` alone passes even when the key is absent; otherwise the first `*` is any run without
  // line terminators, each further `*` repeats the character before it, anchored at the start only; no star: equality.
  static Pattern divvy(std::string text);
  // The documented reading, and that of native rules: every `*` is any run of characters, anchored at both ends, and the
  // key must be present.
  static Pattern wildcard(std::string text);

  // Does the value fit? Nothing: the request lacks the key.
  bool matches(std::optional<std::string_view> value) const;

  // As Divvy's, a pattern can be impossible (`**`): it loads, and fails the request that reaches it. Empty: it is sound.
  std::string_view error() const { return error_; }

  const std::string& text() const { return text_; }

 private:
  std::string text_, error_;
};

}  // namespace sluice::policy
