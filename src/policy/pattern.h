// One condition's pattern over the value of one entry. Immutable and cheap to copy; matching
// allocates nothing and takes time linear in the value and the pattern (times the pattern's length
// over 64 where stars repeat characters), never exponential; a regular expression gives up
// (policy/regex.h). What that adds up to on one request is bounded by the caller's MatchSteps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "policy/match_steps.h"
#include "policy/regex.h"
#include "policy/text.h"

namespace sluice::policy {

class Pattern {
 public:
  // Divvy 1.7.1's own reading: `*` alone passes even when the key is absent; otherwise the first
  // `*` is any run without line terminators (LF, CR, U+2028, U+2029), each further `*` repeats the
  // character before it, anchored at the start only; no star: equality. An absent key fits no
  // pattern but `*`.
  static Pattern loose(std::string text);
  // The documented reading, and that of native rules: every `*` is any run of characters, anchored
  // at both ends, and the key must be present.
  static Pattern wildcard(std::string text);
  // The value is that text, stars and all.
  static Pattern equal_to(std::string text);
  // The value, which must be present, holds what the expression finds. `text` is for people:
  // "/^a/i".
  static Pattern regex(std::string text, std::shared_ptr<const Regex> regex);

  // The value is an address of that network, in any spelling that base::parse_ip_address takes.
  // `text` is for people: "cidr(10.0.0.0/8)".
  static Pattern in_network(std::string text, const base::IpNetwork& network);
  // The value fits one of them: at least one, none of which fits an absent key or is a list itself.
  static Pattern any_of(std::vector<Pattern> alternatives);

  // Does the value fit? Nothing: the request lacks the key. Where `steps` do not suffice: no, and
  // they are over.
  bool matches(std::optional<std::string_view> value) const {
    MatchSteps steps(UINT64_MAX);
    return matches(value, steps);
  }
  bool matches(std::optional<std::string_view> value, MatchSteps& steps) const {
    if (!value) return kind_ == Kind::optional;
    if (kind_ == Kind::exact) return same(*value, text_);
    if (kind_ == Kind::prefix) return begins_with(*value, literal());
    return matches_present(*value, steps);
  }

  // As Divvy's, a pattern can be impossible (`**`): it loads, and fails the request that reaches
  // it. Empty: it is sound.
  std::string_view error() const { return program_ ? std::string_view(program_->error) : ""; }
  bool impossible() const { return kind_ == Kind::impossible; }

  // Characters and repeats behind the first star, where there is a further one, at most. A longer
  // pattern matches nothing, says so here, and must be refused by the policy's reader.
  static constexpr size_t elements_max = 1024;
  bool oversized() const { return kind_ == Kind::oversized; }

  // A value that fits is equal to `literal` (exact) or begins with it, and is present; for indexes
  // over many patterns.
  bool exact() const { return kind_ == Kind::exact; }
  // Every value that begins with `literal` fits.
  bool is_prefix() const { return kind_ == Kind::prefix; }
  std::string_view literal() const { return std::string_view(text_).substr(0, prefix_size_); }
  // For a pattern of `loose` that no wildcard says: the expression that Divvy 1.7.1 makes of it, as
  // "/^a.*b/". Else empty.
  std::string loose_expression() const;
  // The expression, if it is one.
  const Regex* regex() const { return kind_ == Kind::regex ? program_->regex.get() : nullptr; }
  // The network, or null; and what one of must fit, empty of other patterns.
  const base::IpNetwork* network() const {
    return kind_ == Kind::network ? &program_->network : nullptr;
  }
  std::span<const Pattern> alternatives() const;
  // A value that fits: of a text with stars the text itself, of a list its first one's, of a
  // network the first address.
  std::string sample() const;
  // Does every value that fits `other` fit this one? False also where that cannot be decided. Both
  // are of native rules: wildcards, networks, expressions, lists.
  bool covers(const Pattern& other) const;
  // `*` alone.
  bool any() const { return kind_ == Kind::optional || kind_ == Kind::present; }

  const std::string& text() const { return text_; }

 private:
  enum class Kind : uint8_t {
    exact,
    optional,    // `*` that needs no key
    present,     // `*` that needs the key
    prefix,      // literal, then anything
    search,      // prefix, then a run, then a literal; the end is free
    repeats,     // prefix, then a run, then characters of which some repeat; the end is free
    wildcard,    // stars anywhere, anchored at both ends
    regex,       // see regex()
    network,     // see network()
    any_of,      // see alternatives()
    impossible,  // see error()
    oversized,
  };
  struct Program;

  bool matches_present(std::string_view value, MatchSteps& steps) const;
  bool matches_regex(std::string_view value, MatchSteps& steps) const;
  bool matches_any(std::string_view value, MatchSteps& steps) const;
  bool is_in_network(std::string_view value) const;
  template <size_t words_known>
  bool matches_repeats(std::string_view value) const;

  std::string text_;
  std::shared_ptr<const Program> program_;  // of repeats, regex, network, any_of and impossible
  uint32_t prefix_size_ = 0;                // bytes in front of the first star
  uint32_t rest_size_ = 0;                  // search: bytes of the literal behind the first star
  Kind kind_ = Kind::exact;

  struct Program {
    std::string error;
    std::shared_ptr<const Regex> regex;
    base::IpNetwork network;
    std::vector<Pattern> alternatives;
    size_t elements = 0;               // behind the first star
    size_t words = 0;                  // of 64 bits; one bit more than there are elements
    std::vector<uint64_t> repeated;    // bit i: element i may occur any number of times, also never
    std::vector<uint32_t> characters;  // that occur, sorted; the i-th has row i + 1
    std::vector<uint64_t>
        rows;  // bit i of a row: element i is that character; row 0 is all others, empty
    std::array<uint16_t, 128> ascii = {};  // the rows of ASCII
  };
};

}  // namespace sluice::policy
