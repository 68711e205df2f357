#include "live/override_registry.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/printable.h"

namespace sluice::live {

namespace {

// What one round of the housekeeping ends, and forgets, at most.
constexpr size_t ended_per_round_max = 1000;
// Overrides that one round looks at and that it writes, at most, when the policy has changed.
constexpr size_t followed_per_round_max = 20'000, written_per_round_max = 1000;
constexpr base::Duration forget_again_after = base::seconds(5);

}  // namespace

OverrideRegistry::OverrideRegistry(Deps deps)
    : deps_(std::move(deps)), watching_(std::make_shared<Watching>(this)) {}

OverrideRegistry::~OverrideRegistry() {
  end();
}

void OverrideRegistry::end() {
  const std::lock_guard order(watching_->order);
  watching_->registry = nullptr;
}

std::optional<std::string> OverrideRegistry::load() {
  if (!is_persisted()) {
    is_loaded_ = true;
    return std::nullopt;
  }
  {
    const std::lock_guard order(watching_->order);
    const base::Done read =
        deps_.metadata->read([this](std::string_view name, std::string_view text) {
          const store::MetadataStore::Change change{std::string(name), std::string(text)};
          take({&change, 1});
        });
    if (!read) return "the overrides cannot be read: " + read.problem().text;
    // Those that ended while there was no server.
    while (end_some(deps_.clock.earliest_now())) continue;
    is_loaded_ = true;
  }
  if (table_.size() > 0) deps_.log->info("{} overrides are in force", table_.size());
  deps_.metadata->watch(watching_);
  return std::nullopt;
}

// What is kept, or what another server wrote.
void OverrideRegistry::take(std::span<const store::MetadataStore::Change> changes) {
  bool changed = false;
  const bool one_by_one = changes.size() <= ChangeLog::together_max;
  for (const store::MetadataStore::Change& change : changes)
    changed |= take_one(change, one_by_one);
  if (changed && !one_by_one && deps_.changes != nullptr && is_loaded_)
    deps_.changes->add({.what = "overrides changed",
                        .by = "another server",
                        .about = {{"count", changes.size()}}});
  if (changed) deps_.changed();
}

bool OverrideRegistry::take_one(const store::MetadataStore::Change& change, bool told) {
  std::string why;
  const auto id = parse_id(change.name);
  told = told && deps_.changes != nullptr && is_loaded_;
  const auto before = id && told ? find(*id) : std::nullopt;
  OverrideRequest asked;
  if (change.text) {
    auto read = read_persisted(change.name, *change.text);
    if (read) {
      asked = *std::move(read);
      why = intern(asked, deps_.spaces, deps_.limits_max).why;
    } else {
      why = std::move(read).problem().text;
    }
  }
  {
    std::unique_lock lock(mutex_);
    if (!change.text) {
      const bool erased = id && erase(*id);
      lock.unlock();
      if (erased && before) log_other(change_of("override removed", "", *before), before, nullptr);
      return erased;
    }
    if (why.empty() && all_.size() >= base::bounds::overrides_max && !all_.contains(*id))
      why = "there are " + std::to_string(base::bounds::overrides_max) + " already";
    if (why.empty()) follow(asked.one);
    if (why.empty() && put(asked.one)) {
      lock.unlock();
      if (told) log_other(change_of("override set", "", asked.one), before, &asked.one);
      return true;
    }
  }
  if (why.empty()) why = "too many patterns of its rule begin alike";
  deps_.log->warn("the override {} is kept and not in force: {}", base::printable(change.name, 100),
                  base::printable(why, 500));
  // What it replaced is kept no longer.
  const std::lock_guard lock(mutex_);
  return id && erase(*id);
}

bool OverrideRegistry::put(StoredOverride one) {
  if (!table_.set(compiled(one, deps_.spaces))) return false;
  const uint64_t id = one.id();
  auto& [rule, overrides] = rules_[one.rule->id];
  if (rule == nullptr) rule = one.rule;
  one.rule = rule;
  const auto old = all_.find(id);
  overrides += old == all_.end() ? 1u : 0u;
  if (old != all_.end()) {
    unlist(old->second.until, id);
    merged_ -= old->second.persisted_own != 0 ? 1u : 0u;
  }
  merged_ += one.persisted_own != 0 ? 1u : 0u;
  unwritten_.erase(id);
  if (one.until.us != INT64_MAX) ends_.emplace(one.until.us, id);
  all_.insert_or_assign(id, std::move(one));
  return true;
}

// False: there is none.
bool OverrideRegistry::erase(uint64_t id) {
  const auto at = all_.find(id);
  if (at == all_.end()) return false;
  const StoredOverride one = std::move(at->second);
  table_.remove(one.rule->id, one.values());
  unlist(one.until, id);
  merged_ -= one.persisted_own != 0 ? 1u : 0u;
  unwritten_.erase(id);
  all_.erase(at);
  const auto rule = rules_.find(one.rule->id);
  if (--rule->second.overrides == 0) rules_.erase(rule);
  return true;
}

void OverrideRegistry::unlist(base::Time until, uint64_t id) {
  ends_.erase({until.us, id});
  ended_.erase({until.us, id});
}

// May all of them be set? What they replace makes room for nothing else.
OverrideProblem OverrideRegistry::check_room(const std::vector<OverrideRequest>& all) const {
  const auto field_of = [&](size_t i) {
    return all.size() > 1 ? "[" + std::to_string(i) + "].actor" : std::string("actor");
  };
  size_t fresh = 0;
  std::map<uint64_t, size_t> ids;
  std::map<std::pair<uint64_t, std::string>, size_t> more;  // patterns that begin alike
  for (size_t i = 0; i < all.size(); ++i) {
    const StoredOverride& one = all[i].one;
    const uint64_t id = one.id();
    const auto [first, is_first] = ids.emplace(id, i);
    if (!is_first)
      return {422, field_of(i), "is that of [" + std::to_string(first->second) + "] again"};
    const auto known = all_.find(id);
    if (known != all_.end()) {
      if (known->second.rule->id != one.rule->id || known->second.actor != one.actor)
        return {409, field_of(i), "has the same number as " + id_text(id) + "; delete that first"};
      // One that has ended is in the table no more.
      if (!ended_.contains({known->second.until.us, id})) continue;
    }
    fresh += known == all_.end() ? 1u : 0u;
    const auto values = one.values();
    const auto filed = policy::Overrides::filed_under(values);
    if (!filed) continue;
    const size_t alike = table_.alike(one.rule->id, *filed) + ++more[{one.rule->id, *filed}];
    if (alike > base::bounds::overrides_alike_max)
      return {507, field_of(i),
              "the rule has " + std::to_string(base::bounds::overrides_alike_max) +
                  " patterns already that begin with `" + *filed +
                  "`, which is the most, as a request is compared with each of them; write several "
                  "actors into one list, as `[a, b*, cidr(10.0.0.0/8)]`"};
  }
  if (all_.size() + fresh > base::bounds::overrides_max)
    return {507, "",
            "there are " + std::to_string(all_.size()) + " overrides, and " +
                std::to_string(base::bounds::overrides_max) + " is the most; delete some"};
  return {};
}

namespace {

OverrideProblem not_persisted(const store::MetadataStore::WriteResult& result) {
  const std::string& problem = result.problem.text;
  if (result.written == store::MetadataStore::Written::no)
    return {503, "", "nothing was changed, as it could not be kept: " + problem};
  return {503, "",
          "nothing is changed here, and it is unknown whether it was kept: " + problem +
              "; look again, or ask for the same again"};
}

}  // namespace

std::string OverrideRegistry::text_of(const StoredOverride& one) const {
  return persisted_text(one, deps_.spaces.limits(one.persisted_limits.id()));
}

// What decides of it, without its names.
wire::Json OverrideRegistry::terms_of(const StoredOverride& one) const {
  wire::Json json = to_json(one, deps_.spaces, true);
  for (const char* name : {"id", "dialect", "rule", "actor", "created", "applies"})
    json.erase(name);
  return json;
}

Change OverrideRegistry::change_of(const char* what, const std::string& by,
                                   const StoredOverride& one) const {
  Change change{.what = what, .by = by};
  const wire::Json json = to_json(one, deps_.spaces, true);
  for (const char* name : {"id", "dialect", "rule", "actor"})
    if (json.contains(name)) change.about[name] = json[name];
  return change;
}

// What another server did, which the metadata store tells; not of what stood there at the start,
// and not of this server's own changes, which it tells as well.
void OverrideRegistry::log_other(Change change, const std::optional<StoredOverride>& before,
                                 const StoredOverride* after) const {
  if (before) change.before = terms_of(*before);
  if (after != nullptr) change.after = terms_of(*after);
  if (change.before == change.after) return;
  change.by = "another server";
  deps_.changes->add(std::move(change));
}

// `some`: the first of them.
void OverrideRegistry::log_expired(const std::vector<StoredOverride>& some, size_t count) {
  if (deps_.changes == nullptr || !is_loaded_) return;
  for (const StoredOverride& one : some) {
    Change change = change_of("override expired", "its end", one);
    change.before = terms_of(one);
    deps_.changes->add(std::move(change));
  }
  if (count <= some.size()) return;
  Change rest{.what = "overrides expired", .by = "their end"};
  rest.about["count"] = count - some.size();
  deps_.changes->add(std::move(rest));
}

OverrideProblem OverrideRegistry::set(std::vector<OverrideRequest>& all, std::vector<bool>& fresh,
                                      const std::string& by) {
  std::vector<Change> told;
  {
    const std::lock_guard order(watching_->order);
    {
      const std::lock_guard lock(mutex_);
      if (auto problem = check_room(all)) return problem;
    }
    const base::Time now = deps_.clock.now();
    for (size_t i = 0; i < all.size(); ++i) {
      auto problem = intern(all[i], deps_.spaces, deps_.limits_max);
      if (problem && all.size() > 1) problem.field = "[" + std::to_string(i) + "]." + problem.field;
      if (problem) return problem;
      StoredOverride& one = all[i].one;
      one.created = now;
      // The live policy may be another by now than when it was asked for.
      const std::lock_guard lock(mutex_);
      if (!follow(one) || one.own == 0) continue;
      one.persisted_limits = one.limits;
      one.persisted_own = one.own;
    }
    if (is_persisted()) {
      std::vector<store::MetadataStore::Change> changes;
      for (const OverrideRequest& asked : all)
        changes.push_back({id_text(asked.one.id()), text_of(asked.one)});
      if (const auto written = deps_.metadata->write(changes); !written)
        return not_persisted(written);
    }
    const std::lock_guard lock(mutex_);
    const bool one_by_one = deps_.changes != nullptr && all.size() <= ChangeLog::together_max;
    for (const OverrideRequest& asked : all) {
      const auto old = all_.find(asked.one.id());
      fresh.push_back(old == all_.end());
      if (one_by_one) {
        told.push_back(change_of("override set", by, asked.one));
        if (old != all_.end()) told.back().before = terms_of(old->second);
        told.back().after = terms_of(asked.one);
      }
      SLUICE_CHECK(put(asked.one));  // there was room, and no other thread changes anything
    }
  }
  deps_.changed();
  if (deps_.changes == nullptr) return {};
  if (all.size() > ChangeLog::together_max) {
    told.push_back({.what = "overrides set", .by = by});
    told.back().about = {{"count", all.size()},
                         {"first", id_text(all.front().one.id())},
                         {"last", id_text(all.back().one.id())}};
  }
  for (Change& change : told) deps_.changes->add(std::move(change));
  return {};
}

OverrideProblem OverrideRegistry::remove(uint64_t id, StoredOverride& was, const std::string& by) {
  {
    const std::lock_guard order(watching_->order);
    const auto known = find(id);
    if (!known) return {404, "", "there is no override " + id_text(id)};
    was = *known;
    if (is_persisted()) {
      const store::MetadataStore::Change change{id_text(id), std::nullopt};
      if (const auto written = deps_.metadata->write({&change, 1}); !written)
        return not_persisted(written);
    }
    const std::lock_guard lock(mutex_);
    erase(id);
  }
  deps_.changed();
  if (deps_.changes == nullptr) return {};
  Change change = change_of("override removed", by, was);
  change.before = terms_of(was);
  deps_.changes->add(std::move(change));
  return {};
}

std::optional<StoredOverride> OverrideRegistry::find(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto at = all_.find(id);
  return at == all_.end() ? std::nullopt : std::optional(at->second);
}

OverrideRegistry::Page OverrideRegistry::list(
    uint64_t after, size_t max, const std::function<bool(const StoredOverride&)>& wanted) const {
  Page page;
  const std::lock_guard lock(mutex_);
  const auto begin = after == 0 ? all_.begin() : all_.upper_bound(after);
  if (!wanted) {
    page.total = all_.size();
    auto at = begin;
    for (; at != all_.end() && page.items.size() < max; ++at) page.items.push_back(at->second);
    page.more = at != all_.end();
    return page;
  }
  for (const auto& [id, one] : all_) {
    if (!wanted(one)) continue;
    ++page.total;
    if (id <= after && after != 0) continue;
    if (page.items.size() < max)
      page.items.push_back(one);
    else
      page.more = true;
  }
  return page;
}

bool OverrideRegistry::applies(const NamedRule& rule) const {
  const std::lock_guard lock(mutex_);
  return live_rules(*deps_.live.shown()).contains(rule.id);
}

// With mutex_ held. The limits are known as long as the policy is held.
const std::unordered_map<uint64_t, uint32_t>& OverrideRegistry::live_rules(
    const LivePolicy& policy) const {
  if (policy.generation == live_generation_) return live_rules_;
  live_rules_.clear();
  each_rule(*policy.rules, [this](const policy::Rule& one, const policy::Dialect& dialect) {
    live_rules_.emplace(one.id, dialect.merges_overrides ? one.limits_id : 0);
  });
  live_generation_ = policy.generation;
  return live_rules_;
}

// Gives it the limits that hold with the live ones of its rule. True: they are others than before.
// With mutex_ held.
bool OverrideRegistry::follow(StoredOverride& one) const {
  if (one.persisted_own == 0) return false;
  const auto policy = deps_.live.shown();
  const auto& rules = live_rules(*policy);
  const auto rule = rules.find(one.rule->id);
  if (rule == rules.end() || rule->second == 0) return false;
  const std::pair before(one.limits.id(), one.own);
  const auto own = own_limits(deps_.spaces.limits(one.persisted_limits.id()), one.persisted_own);
  size_t wrong = 0;
  const auto merged = merge_limits(deps_.spaces.limits(rule->second), own, wrong);
  if (merged && !check_limits(merged->limits, one.rule->rules_of)) {
    request::LimitsRef limits = deps_.spaces.hold_limits(merged->limits, deps_.limits_max);
    if (!limits) return false;  // there are too many lists; the one that held is as good as any
    one.limits = std::move(limits);
    one.own = merged->own;
  } else {
    one.limits = one.persisted_limits;
    one.own = 0;
  }
  return before != std::pair(one.limits.id(), one.own);
}

// Some of all, where the policy has changed. True: the limits of some are others now.
bool OverrideRegistry::follow_some() {
  const std::lock_guard lock(mutex_);
  if (const uint64_t live = deps_.live.shown()->generation; live != followed_) {
    followed_ = live;
    follow_after_ = 0;
  }
  if (merged_ == 0) follow_after_.reset();
  if (!follow_after_) return false;
  bool changed = false;
  auto at = all_.upper_bound(*follow_after_);
  for (size_t count = 0; at != all_.end() && count < followed_per_round_max; ++count, ++at) {
    auto& [id, one] = *at;
    const request::LimitsRef before =
        one.limits;  // known until the table does not have it any more
    follow_after_ = id;
    if (follow(one) && !ended_.contains({one.until.us, id}))
      changed |= table_.set(compiled(one, deps_.spaces));
    // Not when another server has written it: two with different policies would write for ever.
    if (one.own == 0 || one.limits == one.persisted_limits)
      unwritten_.erase(id);
    else
      unwritten_.insert(id);
  }
  if (at == all_.end()) follow_after_.reset();
  return changed;
}

// Without a metadata store there is nothing to write, and that succeeds.
store::MetadataStore::WriteResult OverrideRegistry::persist(
    std::span<const store::MetadataStore::Change> changes) const {
  return is_persisted() ? deps_.metadata->write(changes) : store::MetadataStore::WriteResult{};
}

// Some of those whose kept text has not the limits that hold.
void OverrideRegistry::write_some(base::Time now) {
  std::vector<StoredOverride> some;
  std::vector<store::MetadataStore::Change> changes;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = unwritten_.begin();
         at != unwritten_.end() && some.size() < written_per_round_max; ++at) {
      StoredOverride& one = some.emplace_back(all_.at(*at));
      std::string before = text_of(one);
      one.persisted_limits = one.limits;
      one.persisted_own = one.own;
      changes.push_back({id_text(*at), text_of(one), std::move(before)});
    }
  }
  if (some.empty()) return;
  if (const auto written = persist(changes); !written) {
    deps_.log->warn(
        "{} overrides are merged with the live policy and cannot be kept so, which is tried again "
        "in seconds: {}",
        some.size(), base::printable(written.problem.text, 500));
    write_again_us_ = now.us + forget_again_after.us;
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const StoredOverride& one : some) {
    StoredOverride& its = all_.at(one.id());
    its.persisted_limits = one.persisted_limits;
    its.persisted_own = one.persisted_own;
    unwritten_.erase(one.id());
  }
}

// Those whose time has passed no longer decide. False: there are none.
bool OverrideRegistry::end_some(base::Time now) {
  std::vector<StoredOverride> told;
  std::unique_lock lock(mutex_);
  size_t count = 0;
  for (; !ends_.empty() && count < ended_per_round_max; ++count) {
    const auto [until_us, id] = *ends_.begin();
    if (until_us > now.us) break;
    const StoredOverride& one = all_.at(id);
    table_.remove(one.rule->id, one.values());
    ended_.insert(ends_.extract(ends_.begin()));
    if (deps_.changes != nullptr && told.size() < ChangeLog::together_max) told.push_back(one);
  }
  lock.unlock();
  log_expired(told, count);
  return count > 0;
}

// They are forgotten once they have ended for every server.
void OverrideRegistry::forget_some(base::Time now) {
  const int64_t late_us = is_persisted() && deps_.metadata->is_shared() ? clocks_differ.us : 0;
  std::vector<uint64_t> ids;
  std::vector<store::MetadataStore::Change> changes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [until_us, id] : ended_) {
      if (until_us > now.us - late_us || ids.size() == ended_per_round_max) break;
      ids.push_back(id);
      // Another server may have set it again, and this one not know that yet.
      const StoredOverride& one = all_.at(id);
      changes.push_back({id_text(id), std::nullopt, text_of(one)});
    }
  }
  if (ids.empty()) return;
  if (const auto written = persist(changes); !written) {
    deps_.log->warn("{} overrides that have ended cannot be forgotten: {}", ids.size(),
                    base::printable(written.problem.text, 500));
    forget_again_us_ = deps_.clock.earliest_now().us + forget_again_after.us;
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const uint64_t id : ids) erase(id);
}

void OverrideRegistry::housekeep() {
  table_.reclaim();
  bool changed = false;
  {
    // Its holder may be waiting for the store; there is a next time.
    const std::unique_lock order(watching_->order, std::try_to_lock);
    if (!order) return;
    const base::Time now = deps_.clock.earliest_now();
    changed = follow_some();
    changed |= end_some(now);
    if (now.us >= write_again_us_) write_some(now);
    if (now.us >= forget_again_us_) forget_some(now);
  }
  if (changed) deps_.changed();
}

void OverrideRegistry::collect(metrics::Page& page) const {
  page.gauge("sluice_overrides", "Overrides that are known, of rules that there are or not.",
             static_cast<double>(table_.size()));
  page.counter("sluice_override_changes_total", "Overrides that were set or removed.",
               static_cast<double>(table_.changes()));
  page.counter("sluice_override_match_given_up_total",
               "Keys that took too many steps to compare with the patterns of overrides: denied.",
               static_cast<double>(table_.too_costly()));
}

}  // namespace sluice::live
