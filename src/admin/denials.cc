#include "admin/denials.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <unordered_map>
#include <utility>

#include "admin/admin_json.h"
#include "base/bounds.h"
#include "base/rfc3339.h"
#include "base/units.h"
#include "live/override_registry.h"
#include "policy/actor_name.h"

namespace sluice::admin {
namespace {

void join(DenialHistory::Record& record, base::Time first, base::Time last, uint64_t count) {
  record.first = std::min(record.first, first);
  record.last = std::max(record.last, last);
  record.count += count;
}

// How many of each rule's notes stay, so that all together are at most `most`: rules with fewer
// keep all of theirs.
size_t share_of(std::vector<size_t> counts, size_t most) {
  std::sort(counts.begin(), counts.end());
  size_t left = most;
  for (size_t i = 0; i < counts.size(); ++i) {
    const size_t share = left / (counts.size() - i);
    if (counts[i] > share) return share;
    left -= counts[i];
  }
  return most;
}

}  // namespace

DenialHistory::Span& DenialHistory::span_at(base::Time at) {
  Span& span = spans_[at.us / span_us];
  // The span itself may be the oldest, where the clock has been set back.
  while (spans_.size() > spans_max)
    spans_.erase(&spans_.begin()->second == &span ? std::next(spans_.begin()) : spans_.begin());
  return span;
}

void DenialHistory::add(const engine::DenialTable& table, const FindOwner& owner_of) {
  base::Time last{};
  table.each([&](const engine::Denial& note) {
    last = std::max(last, note.last);
    auto& records = span_at(note.last).records;
    const auto [at, is_new] = records.try_emplace(note.refusal().tag());
    if (!is_new) return join(at->second, note.first, note.last, note.count);
    at->second = {.owner = owner_of(note),
                  .key = std::string(note.key()),
                  .actor = std::string(note.actor()),
                  .cut = note.cut,
                  .rule = note.rule,
                  .shadow = note.shadow,
                  .limit = note.limit,
                  .first = note.first,
                  .last = note.last,
                  .count = note.count};
  });
  if (table.dropped() > 0) span_at(last).dropped += table.dropped();
  for (auto& [begin, span] : spans_) shrink(span);
}

void DenialHistory::shrink(Span& span) {
  constexpr size_t most = base::bounds::denials_kept_max;
  if (span.records.size() <= most) return;
  using RecordAt = decltype(span.records)::iterator;
  std::map<std::pair<uint16_t, bool>, std::vector<RecordAt>> by_rule;
  for (auto at = span.records.begin(); at != span.records.end(); ++at)
    by_rule[{at->second.rule, at->second.shadow}].push_back(at);
  std::vector<size_t> counts;
  for (const auto& [rule, places] : by_rule) counts.push_back(places.size());
  const size_t share = share_of(std::move(counts), most);
  for (auto& [rule, places] : by_rule) {
    if (places.size() <= share) continue;
    std::sort(places.begin(), places.end(), [](const RecordAt& a, const RecordAt& b) {
      const Record &x = a->second, &y = b->second;
      return x.count != y.count ? x.count > y.count : x.last > y.last;
    });
    for (size_t i = share; i < places.size(); ++i) {
      span.dropped += places[i]->second.count;
      span.records.erase(places[i]);
    }
  }
}

void DenialHistory::forget(base::Time now) {
  const int64_t oldest = (now.us - kept_for.us) / span_us;
  spans_.erase(spans_.begin(), spans_.lower_bound(oldest));
}

std::vector<DenialHistory::Record> DenialHistory::since(base::Time since) const {
  std::unordered_map<uint64_t, Record> all;
  for (auto at = spans_.lower_bound(since.us / span_us); at != spans_.end(); ++at)
    for (const auto& [tag, record] : at->second.records) {
      if (record.last < since) continue;
      const auto [place, is_new] = all.try_emplace(tag, record);
      if (!is_new) join(place->second, record.first, record.last, record.count);
    }
  std::vector<Record> list;
  list.reserve(all.size());
  for (auto& [tag, record] : all) list.push_back(std::move(record));
  return list;
}

uint64_t DenialHistory::dropped(base::Time since) const {
  uint64_t sum = 0;
  for (auto at = spans_.lower_bound(since.us / span_us); at != spans_.end(); ++at)
    sum += at->second.dropped;
  return sum;
}

using engine::DenialTable;

namespace {

constexpr size_t items_default = 100;
constexpr base::Duration since_default = base::seconds(3600);
constexpr base::Duration collected_after = base::seconds(10);
// For a worker's loop to answer.
constexpr auto patience = std::chrono::seconds(2);

std::string moment(base::Time at) {
  return base::format_rfc3339({at.us / 1'000'000 * 1'000'000});
}

}  // namespace

struct DenialBoard::Tray {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> asked;  // by worker: it has not answered yet
  std::vector<std::unique_ptr<DenialTable>> filled, empty;
};

DenialBoard::DenialBoard(base::Clock& clock, const live::Live& live,
                         const ServerStats& server_stats, const request::Spaces* spaces)
    : clock_(clock),
      live_(live),
      server_stats_(server_stats),
      spaces_(spaces),
      started_(clock_.now()),
      tray_(std::make_shared<Tray>()),
      asked_at_(clock_.monotonic()) {}

void DenialBoard::add(std::function<void(TopBoard::Visit)> worker) {
  workers_.push_back(std::move(worker));
  tray_->asked.push_back(false);
}

// A worker that has not answered the last time is not asked again.
void DenialBoard::ask_workers() const {
  for (size_t i = 0; i < workers_.size(); ++i) {
    std::unique_ptr<DenialTable> empty;
    {
      const std::lock_guard lock(tray_->mutex);
      if (tray_->asked[i]) continue;
      tray_->asked[i] = true;
      if (!tray_->empty.empty()) {
        empty = std::move(tray_->empty.back());
        tray_->empty.pop_back();
      }
    }
    if (empty == nullptr) empty.reset(new DenialTable);  // not zeroed
    workers_[i](
        [tray = tray_, i, given = std::make_shared<std::unique_ptr<DenialTable>>(std::move(empty))](
            engine::TopKeys& keys) {
          auto filled = keys.denials().take(std::move(*given));
          const std::lock_guard lock(tray->mutex);
          (filled->is_empty() ? tray->empty : tray->filled).push_back(std::move(filled));
          tray->asked[i] = false;
          tray->changed.notify_all();
        });
  }
}

// Puts what the workers have handed on into the history.
void DenialBoard::keep() {
  std::vector<std::unique_ptr<DenialTable>> filled;
  {
    const std::lock_guard lock(tray_->mutex);
    filled.swap(tray_->filled);
  }
  const std::lock_guard lock(mutex_);
  find_owners(filled);
  for (const auto& table : filled) {
    history_.add(*table, [this](const engine::Denial& note) {
      return owners_.at({note.family, note.rule_id, note.rule});
    });
    table->clear();
  }
  history_.forget(clock_.earliest_now());
  std::erase_if(owners_, [](const auto& one) { return one.second.use_count() <= 1; });
  const std::lock_guard lock_tray(tray_->mutex);
  for (auto& table : filled) tray_->empty.push_back(std::move(table));
}

// What is new is looked for among the live rules, in one pass: a reload may take its name away.
void DenialBoard::find_owners(const std::vector<std::unique_ptr<DenialTable>>& tables) {
  std::map<Named, DenialHistory::Owner> found;
  for (const auto& table : tables)
    table->each([&](const engine::Denial& note) {
      const Named named{note.family, note.rule_id, note.rule};
      if (!owners_.contains(named)) found.try_emplace(named);
    });
  if (found.empty()) return;
  std::unordered_multimap<uint64_t, DenialHistory::Owner*> by_rule;
  for (auto& [named, empty] : found) {
    DenialHistory::Owner& owner = empty;  // which a lambda may use
    const auto& [family, rule_id, number] = named;
    by_rule.emplace(rule_id, &owner);
    owner.rule = server_stats_.name(number);
    const auto [id, serial] = engine::TopKeys::id_and_serial(family);
    owner.is_counter_known =
        spaces_ != nullptr && spaces_->visit(id, serial, [&](const request::Space& space) {
          owner.prefix = space.prefix;
          owner.suffix = space.suffix;
        });
  }
  live::each_rule(*live_.shown()->rules,
                  [&](const policy::Rule& rule, const policy::Dialect& dialect) {
                    const auto [begin, end] = by_rule.equal_range(rule.id);
                    for (auto at = begin; at != end; ++at) {
                      DenialHistory::Owner& owner = *at->second;
                      if (owner.is_rule_known) continue;
                      owner.is_rule_known = true;
                      owner.dialect = dialect.name;
                      owner.rule = dialect.rule_name(rule);
                      owner.keys = rule.actor;
                    }
                  });
  for (auto& [named, owner] : found)
    owners_.emplace(named, std::make_shared<const DenialHistory::Owner>(std::move(owner)));
}

void DenialBoard::collect_some() {
  const base::Time now = clock_.monotonic();
  if (now.us < asked_at_.us + collected_after.us) return;
  asked_at_ = now;
  keep();
  ask_workers();
}

wire::HttpResponse DenialBoard::answer(const wire::HttpRequest& request) {
  const auto since_text = wire::query_value(request.query, "since");
  const auto back = since_text ? base::parse_duration(*since_text) : since_default;
  if (!back || back->us <= 0 || *back > DenialHistory::kept_for)
    return problem_response(400, "`since` must be a length of time up to 1d, as 2h");
  const auto limit_text = wire::query_value(request.query, "limit");
  const auto limit = limit_text ? base::parse_count(*limit_text) : items_default;
  if (!limit || *limit < 1 || *limit > base::bounds::admin_page_max)
    return problem_response(400,
                            "`limit` must be 1 to " + std::to_string(base::bounds::admin_page_max));
  const auto actor = wire::query_value(request.query, "actor");
  const std::string rule = wire::query_value(request.query, "rule").value_or("");

  ask_workers();
  {
    std::unique_lock lock(tray_->mutex);
    const auto all_have = [this] {
      return std::find(tray_->asked.begin(), tray_->asked.end(), true) == tray_->asked.end();
    };
    if (!tray_->changed.wait_for(lock, patience, all_have))
      return problem_response(503, "a worker does not answer; try again");
  }
  keep();

  const base::Time now = clock_.now(), since{std::max(now.us - back->us, started_.us)};
  std::vector<DenialHistory::Record> records;
  uint64_t dropped = 0;
  {
    const std::lock_guard lock(mutex_);
    records = history_.since(since);
    dropped = history_.dropped(since);
  }
  // As /v1/top names an actor.
  const auto actor_of = [](const DenialHistory::Record& one) {
    const bool is_whole = !one.cut && one.owner->is_rule_known;
    return is_whole ? policy::actor_name(one.actor, one.owner->keys) : one.actor;
  };
  std::erase_if(records, [&](const DenialHistory::Record& one) {
    if (one.owner->rule.find(rule) == std::string::npos) return true;
    if (!actor) return false;
    return one.cut ? !actor->starts_with(one.actor) : actor_of(one) != *actor;
  });
  std::sort(records.begin(), records.end(),
            [](const DenialHistory::Record& a, const DenialHistory::Record& b) {
              return a.last != b.last ? a.last > b.last : a.count > b.count;
            });
  const size_t found = records.size();
  if (records.size() > *limit) records.resize(*limit);

  Items list;
  for (const DenialHistory::Record& one : records) {
    Json json = Json::object();
    const DenialHistory::Owner& owner = *one.owner;
    if (owner.is_rule_known) json["dialect"] = owner.dialect;
    json["rule"] = owner.rule;
    json["actor"] = actor_of(one);
    if (one.cut) json["cut"] = true;
    if (owner.is_counter_known && !one.cut) {
      const std::string counter = owner.prefix + one.key + owner.suffix;
      json["counter"] = counter;
      json["path"] = wire::percent_encoded(counter);
    }
    json["limit"] = live::to_json(one.limit);
    if (one.shadow) json["shadow"] = true;
    json["denied"] = one.count;
    json["first"] = moment(one.first);
    json["last"] = moment(one.last);
    if (!list.add(std::move(json))) break;
  }
  const size_t told = list.size();
  return json_response(200, {{"since", moment(since)},
                             {"until", moment(now)},
                             {"started", moment(started_)},
                             {"items", list.take()},
                             {"more", found - told},
                             {"dropped", dropped}});
}

}  // namespace sluice::admin
