// How people write the actor of an override, and how everything that shows an actor names it. What
// one place shows, all others accept.
//
//   alice             that text
//   10.0.*            `*` is any run of characters
//   cidr(10.0.0.0/8)  the addresses of a network, as in a rule's `match`
//   [alice, bob-*]    one of several: texts, texts with stars and networks; a value with a comma, a
//                     bracket, a quote or blanks at an end is in quotes
//   exact(TEXT)       TEXT, whatever its characters: for a text that would have another meaning
//
// The values of several entries are joined by `|` (key_text). KEY=VALUE is the same as VALUE if
// the rule has the one entry KEY. Pure functions and values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "policy/match_steps.h"
#include "policy/pattern.h"

namespace sluice::policy {

struct Rule;

// The text of an actor: the key of its counters and of its overrides, and the text that people
// type. A single value is unchanged. Several values are joined by `|`; a `|` or a backslash within
// them is escaped by a backslash, so that different lists of values have different texts. No other
// code writes this text. Inlined, because each request's keys are written by it.

// `value_of(i)` returns value i of `count`. `allocate(n)` returns room for n characters; it is
// called once if there are several values. The result is in that room, or is the single value
// itself.
template <class ValueOf, class Allocate>
inline std::string_view key_text(size_t count, ValueOf&& value_of, Allocate&& allocate) {
  if (count == 0) return "";
  if (count == 1) return value_of(0);
  // A lookup of a value costs more than storing it.
  std::array<std::string_view, 4> kept;
  size_t bytes_max = count;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view value = value_of(i);
    if (i < kept.size()) kept[i] = value;
    bytes_max += 2 * value.size();
  }
  char* const begin = allocate(bytes_max);
  char* end = begin;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) *end++ = '|';
    for (const char c : i < kept.size() ? kept[i] : value_of(i)) {
      if (c == '|' || c == '\\') *end++ = '\\';
      *end++ = c;
    }
  }
  return {begin, static_cast<size_t>(end - begin)};
}

// The beginnings of values of `match` and of actors that are not texts with stars:
// "cidr(10.0.0.0/8)", "regex(/^a.*b/i)".
inline constexpr std::string_view network_begin = "cidr(", expression_begin = "regex(/";

// The most values of a list, in `match` and in an actor.
inline constexpr size_t list_values_max = 256;

// Why a text is not `cidr(NETWORK)`, and what to write.
struct NetworkProblem {
  std::string message, remedy;
};
// Reads "cidr(NETWORK)". Empty: it is none, and `problem` says why.
std::optional<base::IpNetwork> network_named(std::string_view text, NetworkProblem& problem);

// May a value match both? False only where none can, as far as that takes no search: texts,
// networks, the ends of texts with stars, and lists of such; expressions may match each.
bool may_meet(const Pattern& a, const Pattern& b);

// One value of an actor: the texts, networks and texts with stars of which one must fit.
class ActorValue {
 public:
  static ActorValue of_text(std::string text);
  // Reads a value as people write it. `is_kept`: it is an override's that is stored. Then a bare
  // network or list of addresses is a text, as name() writes it; otherwise it is refused.
  static base::Result<ActorValue> read(std::string_view written, bool is_kept = false);
  // The value for a list of values as people write them.
  static base::Result<ActorValue> of_list(std::span<const std::string> written);

  // How this value is stored: as people write it, but a bare network is a text. Values that mean
  // the same have one name.
  std::string name() const;

  // Is it one text?
  bool is_text() const { return is_texts() && texts_.size() == 1; }
  // Are there texts alone, without stars and networks?
  bool is_texts() const { return networks_.empty() && patterns_.empty(); }
  // The text; the pattern, or null if there is not exactly one thing, a text with stars.
  const std::string& text() const { return texts_.front(); }
  const Pattern* pattern() const {
    return texts_.empty() && networks_.empty() && patterns_.size() == 1 ? &patterns_.front()
                                                                        : nullptr;
  }
  bool matches(std::string_view value, MatchSteps& steps) const;
  // The text, network or text with stars, as people write it, that no value has that `match` lets
  // through (may_meet); nothing: each may.
  std::optional<std::string> kept_out_by(const Pattern& match) const;
  // For the order between overrides: the bytes of a text, the bytes of a pattern that are not
  // stars, a quarter of the bits of a network; of several things the least.
  size_t literal_bytes() const;

 private:
  base::Done add(std::string_view written, bool is_kept);
  void sort();
  size_t size() const { return texts_.size() + networks_.size() + patterns_.size(); }

  // Sorted, each once.
  std::vector<std::string> texts_;
  std::vector<base::IpNetwork> networks_;
  std::vector<Pattern> patterns_;
};

// Why no request that the rule's match lets through has an actor of these values, which are names
// of values of its keys, and what to write; empty: one may have it.
std::string why_unmatched(std::span<const std::string> values, const Rule& rule);

// The names of the values of an override's actor that people wrote, for a rule that counts by these
// keys: one for each key.
base::Result<std::vector<std::string>> read_actor_name(std::string_view written,
                                                       std::span<const std::string> keys);
// The key of the one actor that a name means, for a rule that counts by these keys; empty: it does
// not fit the keys. A problem: it names several actors.
base::Result<std::optional<std::string>> actor_named(std::string_view written,
                                                     std::span<const std::string> keys);
// The name of the actor with this key (key_text).
std::string actor_name(std::string_view key, std::span<const std::string> keys);
// How people write an override's actor, of which this is the key_text of its values' names.
std::string override_name(std::string_view actor, std::span<const std::string> keys);

}  // namespace sluice::policy
