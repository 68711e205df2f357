// Envoy's limits as rules of the engine. Each limit of a LimitSet is a rule of the dialect:
// enforced, or a shadow rule if it has shadow_mode or quota_mode. It is found by the tree, not by
// conditions. There are also rules for limits that come with requests, and rules without a counter
// that tell a session something.
//
//   descriptor  The entries of the requests that a session makes: those of the message in reverse
//               order, then `domain`. For rules the last entry of a key counts, so native rules see
//               the first one of the message, and `domain` is always the message's.
//   counters    One space for each window, so limits with the same unit share the counter of a key,
//               as in the original. Limits with an algorithm of sluice's own share one space.
//   charges     Takes count (request::Verb::count), under limits of sluice's own only with
//               `over: count`.
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

// Empty keys that are distinguished by their addresses, which no text of a client can have. A
// descriptor may begin with one of them.
inline constexpr char marks[2] = {};
// The limit that comes with the request replaces the rules.
inline constexpr std::string_view override_mark{&marks[0], 0};
// The request only asks whether the domain is known.
inline constexpr std::string_view probe_mark{&marks[1], 0};

inline constexpr std::string_view domain_entry = "domain";

// The unit of the limit of a probe, which asks whether the store can be reached.
inline constexpr Unit probed_unit = Unit::hour;

class LimitRules;

// The data for verdicts about the rule that was found.
struct FoundRule final : request::RuleData {
  enum class Kind : uint8_t {
    limit,           // a limit of the files; `limit` is its number
    override,        // a limit that came with the request
    unknown_domain,  // no file has the domain
    known_domain,    // the answer to a probe
    not_loaded,      // the files could not be read yet
  };
  Kind kind = Kind::limit;
  uint32_t limit = absent;
  const LimitRules* rules = nullptr;
};

struct RulesOptions {
  std::string key_prefix{};    // of counters in Redis that other servers share
  uint32_t life_jitter_s = 0;  // the bound of the random part of their expiry
  request::OnError on_store_error = request::OnError::error;
  bool not_loaded = false;          // the files cannot be used, so requests are refused
  bool healthy_not_loaded = false;  // the service counts as healthy even then
};

// The limits, and the data of their rules. Immutable; any thread. Owned by the rule set, and by
// calls that use a result after the rule set may have been replaced.
class LimitRules : public std::enable_shared_from_this<LimitRules> {
 public:
  // Adds the rules of `set` to the dialect, which must have none.
  static void add(LimitSet set, const RulesOptions& options, request::Spaces& spaces,
                  policy::RuleSet& rules);

  const LimitSet& set() const { return set_; }
  // Greater than that of every earlier object of this process.
  uint64_t serial() const { return serial_; }
  // As RulesOptions::healthy_not_loaded.
  bool is_healthy_not_loaded() const { return healthy_not_loaded_; }
  // False: the rule set is that for files that could not be used (RulesOptions::not_loaded).
  static bool are_loaded(const policy::RuleSet& rules);

 private:
  struct Tree;
  LimitRules(LimitSet set, bool healthy_not_loaded);

  LimitSet set_;
  const bool healthy_not_loaded_;
  const uint64_t serial_;
  std::vector<FoundRule> data_;                // by the rules' indices in the dialect
  std::vector<const request::Space*> spaces_;  // by the limits' numbers
};

}  // namespace sluice::envoy
