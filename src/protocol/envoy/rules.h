// Envoy's limits as rules of the engine. Each limit of a LimitSet is one enforced rule of the
// dialect (one with shadow_mode or quota_mode is in shadow: it settles by itself), found by the
// tree and not by conditions; beside them are rules for limits that come with requests, and some
// that tell a session what has no counter.
//
//   descriptor  What a session asks about: the entries in reverse order, then `domain`. Rules go by
//               the last entry of a key, so native ones see the first of the request's; and
//               `domain` is the request's.
//   counters    One space for each window, so limits of one unit share the counter of a key, as
//               they do in the original; limits of an algorithm of sluice's own have one space.
//   charges     Takes count (request::Verb::count) but for limits of sluice's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "limit/limit.h"
#include "protocol/envoy/limits.h"
#include "request/charge.h"
#include "request/space.h"

namespace sluice::policy {
class RuleSet;
}

namespace sluice::envoy {

// Keys without letters, told apart by where they are, which no text of a client is. One of them may
// stand in front of the other entries of a descriptor.
inline constexpr char marks[2] = {};
// The limit that comes with the request holds in place of the rules.
inline constexpr std::string_view override_mark{&marks[0], 0};
// It is only asked what is known of the domain.
inline constexpr std::string_view probe_mark{&marks[1], 0};

inline constexpr std::string_view domain_entry = "domain";

// Of the limit that comes with a probe by which the store is asked.
inline constexpr Unit probed_unit = Unit::hour;

class LimitRules;

// What verdicts tell of the rule that was found.
struct FoundRule final : request::RuleData {
  enum class Kind : uint8_t {
    limit,           // of the files; `limit` is its number
    override,        // that came with the request
    unknown_domain,  // no file has it
    known_domain,    // answer to a probe
    not_loaded,      // the files could not be read so far
  };
  Kind kind = Kind::limit;
  uint32_t limit = absent;
  const LimitRules* rules = nullptr;
};

struct RulesOptions {
  std::string key_prefix{};    // of counters that a Redis shares with other servers
  uint32_t life_jitter_s = 0;  // of those: a random part of their lives, below this
  request::OnError on_store_error = request::OnError::error;
  bool not_loaded = false;  // the files cannot be used: requests are refused
};

// The limits, and the data of their rules. Immutable; any thread. Kept by the rule set, and by who
// shows what it found after the rule set may have gone.
class LimitRules : public std::enable_shared_from_this<LimitRules> {
 public:
  // Adds the rules of `set` to the dialect's, of which there are none so far.
  static void add(LimitSet set, const RulesOptions& options, request::Spaces& spaces,
                  policy::RuleSet& rules);

  const LimitSet& set() const { return set_; }
  // Above that of every one that was made before in this process.
  uint64_t serial() const { return serial_; }
  // Of a rule set; false: it has those of files that could not be used (RulesOptions::not_loaded).
  static bool are_loaded(const policy::RuleSet& rules);

 private:
  struct Tree;
  explicit LimitRules(LimitSet set);

  LimitSet set_;
  const uint64_t serial_;
  std::vector<FoundRule> data_;                // by the rules' places in the dialect
  std::vector<const request::Space*> spaces_;  // by the limits' numbers
};

}  // namespace sluice::envoy
