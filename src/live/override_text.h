// An override as people know it, and its texts: the JSON that the admin port takes and gives, and
// that which a store::MetadataStore keeps. Pure functions, but for what `intern` interns; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "limit/limit.h"
#include "policy/dialect.h"
#include "policy/overrides.h"
#include "request/space.h"
#include "wire/json.h"

namespace sluice::live {

// A rule that has overrides, or had; shared by these.
struct NamedRule {
  std::string dialect;             // policy::Dialect::name
  std::string name;                // policy::Dialect::rule_name
  std::vector<std::string> actor;  // keys of its entries
  // Where overrides have a space of their own: of its counters' stored keys.
  std::string prefix;
  uint64_t id = 0;  // policy::Rule::id
  // Of a limit in a request that names none; not kept, as is the next.
  limit::Algorithm usual = limit::Algorithm::token_bucket;
  // Where an override may replace some (Dialect::merges_overrides), the live rule's; else none: an
  // override replaces all there is.
  std::vector<limit::Limit> limits{};
  // Null: the override is persisted, and no protocol here has such a dialect. No live rule is its.
  const policy::Dialect* rules_of = nullptr;
};

struct StoredOverride {
  std::shared_ptr<const NamedRule> rule;
  std::string actor;          // policy::key_text of the names of its values
  request::LimitsRef limits;  // those that hold
  policy::OwnLimits own = 0;  // of these
  // As they stand in the text that is kept: those that held when it was written.
  request::LimitsRef persisted_limits;
  policy::OwnLimits persisted_own = 0;
  request::SpaceRef space;  // none: the rule's
  base::Time until{INT64_MAX};
  base::Time created{};
  std::string comment;

  std::vector<std::string> values() const;  // policy::ActorValue::name of each
  // The same for the same rule and actor, in every process.
  uint64_t id() const;
};

// One whose limits are not interned yet.
struct OverrideRequest {
  StoredOverride one;
  std::vector<limit::Limit> limits;  // one.persisted_own says which are its own
};

// What is wrong with what a client asked for; status 0: nothing.
struct OverrideProblem {
  unsigned status = 0;
  std::string field;  // "[3].limits[0].quota"; empty: the whole
  std::string why;
  wire::Json more = wire::Json::object();
  explicit operator bool() const { return status != 0; }
};

// "o-0123456789abcdef", and back; nothing: it is not an id.
std::string id_text(uint64_t id);
std::optional<uint64_t> parse_id(std::string_view text);

// Gives it its limits, and a space of its own where the dialect wants one. 507: they are new, and
// there are `most` different ones or more.
OverrideProblem intern(OverrideRequest& asked, request::Spaces& spaces, size_t most);

// Each limit of an override replaces the rule's limit of the same window, and the others stay in
// force.
struct MergedLimits {
  std::vector<limit::Limit> limits;  // in the rule's order
  policy::OwnLimits own = 0;
};

// The rule's limits with those of `own` in their places. If several limits of the rule have a
// window, the algorithm decides. Empty: own[wrong] has the window of none of the rule's limits, or
// of several of them, or of one that another limit of `own` replaces.
std::optional<MergedLimits> merge_limits(std::span<const limit::Limit> of_rule,
                                         std::span<const limit::Limit> own, size_t& wrong);

// The limits of a list that `own` names.
std::vector<limit::Limit> own_limits(std::span<const limit::Limit> limits, policy::OwnLimits own);

// The windows of a rule's limits, as a text for people: "1s and 1d", "1s, 1m (fixed_window) and 1m
// (sliding_log)"; for what has no window "none (fixed_bucket)" and "none (concurrency)".
std::string window_words(std::span<const limit::Limit> limits);

// What decisions are made by, of one that is settled.
policy::Override compiled(const StoredOverride& one, const request::Spaces& spaces);

// Reads `limit`, `limits`, `unlimited` or `deny` of a request, for that rule, and `all_limits`:
// each limit replaces the rule's of its window, and `limits` has the rule's others as well, unless
// all must be replaced. The only limit of a rule is replaced whatever its window.
OverrideProblem read_limits(const wire::Json& body, const NamedRule& rule,
                            std::vector<limit::Limit>& limits, policy::OwnLimits& own);
// May these limits replace those of a rule of the dialect? Null: it is not known here.
OverrideProblem check_limits(std::span<const limit::Limit> limits, const policy::Dialect* dialect);
// Reads `actor`, `until` and `comment`.
OverrideProblem read_actor(const wire::Json& body, std::span<const std::string> keys,
                           std::vector<std::string>& values);
OverrideProblem read_until(const wire::Json& body, base::Time now, base::Time& until);
OverrideProblem read_comment(const wire::Json& body, std::string& comment);
// As native policies spell it, with all its numbers.
wire::Json to_json(const limit::Limit& limit);

wire::Json to_json(const StoredOverride& one, const request::Spaces& spaces, bool applies);

// For a MetadataStore, of a list of limits, of which one.persisted_own are its own. Reading back:
// a problem if it is not understood; else the same override always has the same text. It has the
// limits that hold, and `replaces` says which of them are the override's own; without it all are.
std::string persisted_text(const StoredOverride& one, std::span<const limit::Limit> limits);
base::Result<OverrideRequest> read_persisted(std::string_view name, std::string_view text);

}  // namespace sluice::live
