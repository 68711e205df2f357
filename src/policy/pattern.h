// The pattern of one condition, for the value of one entry. Immutable and cheap to copy. Matching
// allocates nothing and takes time linear in the value and the pattern (times the pattern's length
// / 64 where stars repeat characters), never exponential; a regular expression gives up in time
// (policy/regex.h). The caller's MatchSteps bound the sum for one request.
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
  // A pattern with the meaning that it has in Divvy 1.7.1. `*` alone matches even an absent key.
  // Otherwise the key must be present; the first `*` is any run without line terminators (LF, CR,
  // U+2028, U+2029), each further `*` lets the character before it occur any number of times, and
  // the end of the value need not match. Without a star the value must be equal.
  static Pattern loose(std::string text);
  // A pattern with the documented meaning, which native rules have: every `*` is any run of
  // characters, the whole value must match, and the key must be present.
  static Pattern wildcard(std::string text);
  // The value must equal that text; stars have no meaning.
  static Pattern equal_to(std::string text);
  // The key must be present, and the expression must match somewhere in the value. `text` is for
  // people: "/^a/i".
  static Pattern regex(std::string text, std::shared_ptr<const Regex> regex);

  // The value must be an address in that network, in any spelling that base::parse_ip_address
  // reads. `text` is for people: "cidr(10.0.0.0/8)".
  static Pattern in_network(std::string text, const base::IpNetwork& network);
  // The value must match one of the alternatives. There is at least one; none matches an absent key
  // or is a list itself.
  static Pattern any_of(std::vector<Pattern> alternatives);

  // Does the value match? An empty value: the request lacks the key. If `steps` do not suffice, it
  // does not match, and MatchSteps::over is true.
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

  // Why the pattern is impossible, such as Divvy's `**`: it loads, and a request that reaches it
  // fails. Empty: it is not impossible.
  std::string_view error() const { return program_ ? std::string_view(program_->error) : ""; }
  bool impossible() const { return kind_ == Kind::impossible; }

  // The most elements (characters, repeated or not) after the first star of a pattern of `loose`
  // that has further stars. A longer pattern is `oversized`: it matches nothing, and the policy's
  // reader must refuse it.
  static constexpr size_t elements_max = 1024;
  bool oversized() const { return kind_ == Kind::oversized; }

  // For indexes over many patterns: a value that matches equals `literal` (exact), or begins with
  // it, and is present.
  bool exact() const { return kind_ == Kind::exact; }
  // Does every value match that begins with `literal`?
  bool is_prefix() const { return kind_ == Kind::prefix; }
  std::string_view literal() const { return std::string_view(text_).substr(0, prefix_size_); }
  // For a pattern of `loose` that cannot be written as a wildcard: the regular expression that
  // Divvy 1.7.1 makes of it, such as "/^a.*b/". Otherwise empty.
  std::string loose_expression() const;
  // The regular expression; null: it is another kind of pattern.
  const Regex* regex() const { return kind_ == Kind::regex ? program_->regex.get() : nullptr; }
  // The network, or null; the alternatives of a list, empty for other patterns.
  const base::IpNetwork* network() const {
    return kind_ == Kind::network ? &program_->network : nullptr;
  }
  std::span<const Pattern> alternatives() const;
  // A value that matches: the text itself for a text with stars, the first alternative's for a
  // list, the first address for a network.
  std::string sample() const;
  // Does this pattern match every value that `other` matches? Decided only where it needs no
  // search: this is `*`, `other` itself, an exact text, a text whose only star is its end, a
  // network, or a list of such; else false. Both must be patterns of native rules.
  bool covers(const Pattern& other) const;
  // Is it `*` alone?
  bool any() const { return kind_ == Kind::optional || kind_ == Kind::present; }

  const std::string& text() const { return text_; }

 private:
  enum class Kind : uint8_t {
    exact,
    optional,    // `*` that needs no key
    present,     // `*` that needs the key
    prefix,      // a literal, then any text
    search,      // a prefix, a run, a literal; then any text
    repeats,     // a prefix, a run, characters of which some repeat; then any text
    wildcard,    // stars anywhere; the whole value must match
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
  uint32_t prefix_size_ = 0;                // bytes before the first star
  uint32_t rest_size_ = 0;                  // search: bytes of the literal after the first star
  Kind kind_ = Kind::exact;

  struct Program {
    std::string error;
    std::shared_ptr<const Regex> regex;
    base::IpNetwork network;
    std::vector<Pattern> alternatives;
    size_t elements = 0;  // after the first star
    size_t words = 0;     // of 64 bits, with one bit more than there are elements
    std::vector<uint64_t>
        repeated;  // bit i: element i may occur any number of times, or not at all
    std::vector<uint32_t> characters;  // those that occur, sorted; character i has row i + 1
    std::vector<uint64_t>
        rows;  // bit i of a row: element i is that character; row 0 is for all other characters
    std::array<uint16_t, 128> ascii = {};  // the rows of ASCII characters
  };
};

}  // namespace sluice::policy
