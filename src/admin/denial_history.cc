#include "admin/denial_history.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"

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
  using Place = decltype(span.records)::iterator;
  std::map<std::pair<uint16_t, bool>, std::vector<Place>> by_rule;
  for (auto at = span.records.begin(); at != span.records.end(); ++at)
    by_rule[{at->second.rule, at->second.shadow}].push_back(at);
  std::vector<size_t> counts;
  for (const auto& [rule, places] : by_rule) counts.push_back(places.size());
  const size_t share = share_of(std::move(counts), most);
  for (auto& [rule, places] : by_rule) {
    if (places.size() <= share) continue;
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
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

}  // namespace sluice::admin
