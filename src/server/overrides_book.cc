#include "server/overrides_book.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/printable.h"
#include "server/admin_json.h"

namespace sluice::server {

namespace {

// What one round of the housekeeping forgets at most.
constexpr size_t expired_per_round_max = 1000;
constexpr base::Duration expire_again_after = base::seconds(5);

}  // namespace

OverridesBook::OverridesBook(World world)
    : world_(std::move(world)), watching_(std::make_shared<Watching>()) {
  watching_->book = this;
}

OverridesBook::~OverridesBook() {
  const std::lock_guard lock(watching_->mutex);
  watching_->book = nullptr;
}

std::optional<std::string> OverridesBook::load() {
  if (!is_kept()) return std::nullopt;
  std::string problem;
  const bool read = world_.keeper->read(
      [this](std::string_view name, std::string_view text) {
        const store::Keeper::Change change{std::string(name), std::string(text)};
        take({&change, 1});
      },
      problem);
  if (!read) return "the overrides cannot be read: " + problem;
  world_.keeper->watch([watching = watching_](std::span<const store::Keeper::Change> changes) {
    const std::lock_guard held(watching->mutex);
    if (watching->book != nullptr) watching->book->take(changes);
  });
  const std::lock_guard lock(mutex_);
  if (!all_.empty()) world_.log->info("{} overrides are in force", all_.size());
  return std::nullopt;
}

// What is kept, or what another server wrote.
void OverridesBook::take(std::span<const store::Keeper::Change> changes) {
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    for (const store::Keeper::Change& change : changes) {
      const std::string& name = change.name;
      const std::optional<std::string>& text = change.text;
      const auto told = [&](const std::string& why) {
        world_.log->warn("the override {} is kept and not in force: {}", base::printable(name, 100),
                         base::printable(why, 500));
      };
      const auto id = parse_id(name);
      if (!text) {
        if (id && all_.contains(*id)) {
          erase(*id);
          changed = true;
        }
        continue;
      }
      std::string why;
      auto one = read_kept(name, *text, world_.spaces, why);
      if (!one) {
        told(why);
      } else if (all_.size() >= base::bounds::overrides_max && !all_.contains(*id)) {
        told("there are " + std::to_string(base::bounds::overrides_max) + " already");
      } else if (!put(std::move(*one))) {
        told("too many patterns of its rule begin alike");
      } else {
        changed = true;
      }
    }
  }
  if (changed) world_.changed();
}

bool OverridesBook::put(KnownOverride one) {
  auto& rule = rules_[one.rule->id];
  if (rule == nullptr) rule = one.rule;
  one.rule = rule;
  if (!table_.set(compiled(one, world_.spaces))) {
    if (rule.use_count() <= 2) rules_.erase(one.rule->id);
    return false;
  }
  const uint64_t id = one.id();
  const auto old = all_.find(id);
  if (old != all_.end()) ends_.erase({old->second.until.us, id});
  if (one.until.us != INT64_MAX) ends_.emplace(one.until.us, id);
  all_.insert_or_assign(id, std::move(one));
  return true;
}

void OverridesBook::erase(uint64_t id) {
  const auto at = all_.find(id);
  if (at == all_.end()) return;
  const KnownOverride one = std::move(at->second);
  table_.remove(one.rule->id, one.values());
  ends_.erase({one.until.us, id});
  all_.erase(at);
  // The map's and ours.
  if (one.rule.use_count() <= 2) rules_.erase(one.rule->id);
}

// May all of them be set? What they replace makes room for nothing else.
OverrideProblem OverridesBook::check_room(const std::vector<KnownOverride>& all) const {
  const auto field_of = [&](size_t i) {
    return all.size() > 1 ? "[" + std::to_string(i) + "].actor" : std::string("actor");
  };
  size_t fresh = 0;
  std::map<uint64_t, size_t> ids;
  std::map<std::pair<uint64_t, std::string>, size_t> more;  // patterns that begin alike
  for (size_t i = 0; i < all.size(); ++i) {
    const uint64_t id = all[i].id();
    const auto [first, is_first] = ids.emplace(id, i);
    if (!is_first)
      return {422, field_of(i), "is that of [" + std::to_string(first->second) + "] again"};
    const auto known = all_.find(id);
    if (known != all_.end()) {
      if (known->second.rule->id != all[i].rule->id || known->second.actor != all[i].actor)
        return {409, field_of(i), "has the same number as " + id_text(id) + "; delete that first"};
      continue;
    }
    ++fresh;
    const auto values = all[i].values();
    const auto filed = policy::Overrides::filed_under(values);
    if (!filed) continue;
    const size_t alike = table_.alike(all[i].rule->id, *filed) + ++more[{all[i].rule->id, *filed}];
    if (alike > base::bounds::overrides_alike_max)
      return {507, field_of(i),
              "the rule has " + std::to_string(base::bounds::overrides_alike_max) +
                  " patterns already that begin with `" + *filed +
                  "`, which is the most; a request is compared with each of them"};
  }
  if (all_.size() + fresh > base::bounds::overrides_max)
    return {507, "",
            "there are " + std::to_string(all_.size()) + " overrides, and " +
                std::to_string(base::bounds::overrides_max) + " is the most; delete some"};
  return {};
}

OverrideProblem OverridesBook::set(std::vector<KnownOverride>& all, std::vector<bool>& fresh) {
  {
    const std::lock_guard lock(mutex_);
    if (auto problem = check_room(all)) return problem;
    const base::Time now = world_.clock.now();
    for (KnownOverride& one : all) one.created = now;
    if (is_kept()) {
      std::vector<store::Keeper::Change> changes;
      for (const KnownOverride& one : all)
        changes.push_back({id_text(one.id()), kept_text(one, world_.spaces)});
      std::string problem;
      if (!world_.keeper->write(changes, problem))
        return {503, "", "nothing was changed, as it could not be kept: " + problem};
    }
    for (const KnownOverride& one : all) {
      fresh.push_back(!all_.contains(one.id()));
      put(one);
    }
  }
  world_.changed();
  return {};
}

OverrideProblem OverridesBook::remove(uint64_t id, KnownOverride& was) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = all_.find(id);
    if (at == all_.end()) return {404, "", "there is no override " + id_text(id)};
    was = at->second;
    if (is_kept()) {
      const store::Keeper::Change change{id_text(id), std::nullopt};
      std::string problem;
      if (!world_.keeper->write({&change, 1}, problem))
        return {503, "", "nothing was changed, as it could not be kept: " + problem};
    }
    erase(id);
  }
  world_.changed();
  return {};
}

std::optional<KnownOverride> OverridesBook::find(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto at = all_.find(id);
  return at == all_.end() ? std::nullopt : std::optional(at->second);
}

OverridesBook::Page OverridesBook::list(
    uint64_t after, size_t max, const std::function<bool(const KnownOverride&)>& wanted) const {
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

bool OverridesBook::applies(const NamedRule& rule) const {
  const std::lock_guard lock(mutex_);
  const auto policy = world_.live.current();
  if (policy->generation != live_generation_) {
    live_rules_.clear();
    each_rule(*policy->rules,
              [this](const policy::Rule& one, std::string_view) { live_rules_.insert(one.id); });
    live_generation_ = policy->generation;
  }
  return live_rules_.contains(rule.id);
}

void OverridesBook::housekeep() {
  bool changed = false;
  {
    // Whoever holds it may be waiting for the store; there is a next time.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    const base::Time now = world_.clock.now();
    if (!lock || now.us < expire_again_us_) return;
    std::vector<uint64_t> ended;
    for (const auto& [until_us, id] : ends_) {
      if (until_us > now.us || ended.size() == expired_per_round_max) break;
      ended.push_back(id);
    }
    if (ended.empty()) return;
    if (is_kept()) {
      std::vector<store::Keeper::Change> changes;
      for (const uint64_t id : ended) changes.push_back({id_text(id), std::nullopt});
      std::string problem;
      if (!world_.keeper->write(changes, problem)) {
        // They do nothing any more all the same.
        world_.log->warn("{} overrides that have ended cannot be forgotten: {}", ended.size(),
                         base::printable(problem, 500));
        expire_again_us_ = now.us + expire_again_after.us;
        return;
      }
    }
    for (const uint64_t id : ended) erase(id);
    changed = true;
  }
  if (changed) world_.changed();
}

void OverridesBook::collect(metrics::Page& page) const {
  page.gauge("sluice_overrides", "Overrides that are known, of rules that there are or not.",
             static_cast<double>(table_.size()));
  page.counter("sluice_override_changes_total", "Overrides that were set or removed.",
               static_cast<double>(table_.changes()));
}

}  // namespace sluice::server
