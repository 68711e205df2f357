// Envoy's limits as rules of the engine. Each limit of a LimitSet is a rule of the dialect:
// enforced, or a shadow rule if it has shadow_mode or quota_mode. Calls plan its charges (call.h):
// it is found by the tree, not by conditions. There are also rules for limits that come with
// requests, and rules without a counter that tell a call something.
//
//   descriptor  The entries of the requests that a call makes: those of the message in reverse
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
class OwnRules;
struct Planning;
class RuleSet;
}  // namespace sluice::policy

namespace sluice::envoy {

inline constexpr std::string_view domain_entry = "domain";

// The unit of the limit of a probe, which asks whether the store can be reached.
inline constexpr Unit probed_unit = Unit::hour;

class LimitRules;

// What a rule is.
struct FoundRule {
  enum class Kind : uint8_t {
    limit,           // a limit of the files; `limit` is its number
    override,        // a limit that came with the request
    unknown_domain,  // no file has the domain
    known_domain,    // the answer to a question about the domain
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

// The limits, and what their rules are. Immutable; any thread. Owned by the rule set, and by
// calls that use a result after the rule set may have been replaced.
class LimitRules : public std::enable_shared_from_this<LimitRules> {
 public:
  // Adds the rules of `set` to the dialect, which must have none.
  static void add(LimitSet set, const RulesOptions& options, request::Spaces& spaces,
                  policy::RuleSet& rules);

  // Those of the rule set; null: it has no rules of the dialect.
  static const LimitRules* of(const policy::RuleSet& rules);
  static const LimitRules& of(const policy::OwnRules& own);

  const LimitSet& set() const { return set_; }
  // True: the rules are those for files that could not be used (RulesOptions::not_loaded).
  bool are_not_loaded() const { return not_loaded_; }

  // These plan a charge, and return what its rule is. They are for calls of this object's rule set.

  // The answer to whether the domain is known; an empty one: whether there is any.
  const FoundRule& plan_domain(std::string_view domain, policy::Planning& planning) const;
  // The charge of a probe, which asks whether the store can be reached.
  const FoundRule& plan_probe(policy::Planning& planning) const;
  // The charge of the limit that the walk through the domain's tree has found.
  const FoundRule& plan_limit(uint32_t domain, Entries entries, const Walk& walk,
                              policy::Planning& planning) const;
  // The charge of a limit that came with the request, with that window.
  const FoundRule& plan_override(uint32_t domain, Entries entries, base::Duration window,
                                 policy::Planning& planning) const;
  // Greater than that of every earlier object of this process.
  uint64_t serial() const { return serial_; }
  // As RulesOptions::healthy_not_loaded.
  bool is_healthy_not_loaded() const { return healthy_not_loaded_; }

 private:
  struct Tree;
  LimitRules(LimitSet set, const RulesOptions& options);
  const FoundRule& plan(size_t rule, std::string_view key, std::string_view actor,
                        policy::Planning& planning) const;
  const FoundRule& plan_fixed(size_t place, policy::Planning& planning) const;

  LimitSet set_;
  const bool not_loaded_, healthy_not_loaded_;
  const uint64_t serial_;
  std::vector<FoundRule> data_;                // by the rules' indices in the dialect
  std::vector<const request::Space*> spaces_;  // by the limits' numbers
};

}  // namespace sluice::envoy
