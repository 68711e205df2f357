#include "engine/denials.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/printable.h"

namespace sluice::engine {

uint64_t Refusal::tag() const {
  uint64_t mixed = hash ^ reinterpret_cast<uintptr_t>(family) * 0x9E3779B97F4A7C15u;
  mixed += static_cast<uint64_t>(limit.quota) * 0xD6E8FEB86659FD93u;
  mixed ^= static_cast<uint64_t>(limit.window.us) * 0xC2B2AE3D27D4EB4Fu;
  mixed += static_cast<uint64_t>(limit.burst) * 0x165667B19E3779F9u;
  mixed ^= limit.calendar.code() * 0x9E3779B97F4A7C15u;
  mixed ^=
      (uint64_t{rule} << 9 | static_cast<uint64_t>(limit.algorithm) << 1 | (shadow ? 1u : 0u)) *
      0x85EBCA77C2B2AE63u;
  mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93u;
  mixed ^= mixed >> 32;
  return mixed;
}

Refusal Denial::refusal() const {
  return {.hash = hash,
          .family = family,
          .key = key(),
          .actor = has_actor ? actor() : std::string_view(),
          .rule_id = rule_id,
          .rule = rule,
          .shadow = shadow,
          .limit = limit};
}

void Denial::begin(const Refusal& refusal, base::Time now) {
  const auto keep = [](std::string_view text, std::array<char, key_bytes_max>& to) {
    const size_t bytes = std::min(text.size(), key_bytes_max);
    std::copy_n(text.data(), bytes, to.data());
    return static_cast<uint8_t>(bytes);
  };
  hash = refusal.hash;
  count = 1;
  rule_id = refusal.rule_id;
  first = last = now;
  family = refusal.family;
  limit = refusal.limit;
  rule = refusal.rule;
  shadow = refusal.shadow;
  cut = refusal.key.size() > key_bytes_max || refusal.actor.size() > key_bytes_max;
  key_bytes = keep(refusal.key, key_text);
  has_actor = refusal.actor.data() != nullptr;
  actor_bytes = keep(refusal.actor, actor_text);
}

// The place of the note with that mark, or of a new one: a free one, the home first, or that of the
// note that makes room. `size`: it gets none.
size_t DenialTable::find(uint64_t mark, uint32_t kind, bool& is_new) {
  constexpr uint64_t new_ones = 16;
  const size_t set = set_of(mark), home = home_of(mark);
  const auto found =
      static_cast<size_t>(std::find(&marks_[set], &marks_[set] + ways, mark) - marks_.data());
  if (found < set + ways) return found;
  size_t at = size;
  if (marks_[home] == 0) {
    at = home;
  } else {
    const auto* const free = std::find(&marks_[set], &marks_[set] + ways, uint64_t{0});
    at = static_cast<size_t>(free - marks_.data());
  }
  if (at < set + ways) {
    ++used_;
  } else {
    if (kinds_[home] == kind && (++dropped_ & (new_ones - 1)) != 0) return size;
    at = least_of(set, kind);
    dropped_ += counts_[at] - (kinds_[home] == kind ? 1u : 0u);
  }
  is_new = true;
  marks_[at] = mark;
  counts_[at] = 1;
  kinds_[at] = kind;
  return at;
}

// Of the kind that would have most notes of a full set with one more of `kind`, the note that was
// refused least. Of several the search begins at a different one each time.
size_t DenialTable::least_of(size_t set, uint32_t kind) const {
  const auto of_kind = [&](uint32_t one) {
    return static_cast<size_t>(std::count(&kinds_[set], &kinds_[set] + ways, one)) +
           (one == kind ? 1u : 0u);
  };
  uint32_t most = kind;
  if (size_t count = of_kind(kind); count <= ways / 2)
    for (size_t at = set; at < set + ways; ++at)
      if (const size_t others = of_kind(kinds_[at]); others > count) {
        count = others;
        most = kinds_[at];
      }
  // `dropped_` is a multiple of sixteen in a flood, so its lower bits say nothing.
  const size_t begin = dropped_ >> 4;
  size_t found = size;
  for (size_t i = 0; i < ways; ++i) {
    const size_t at = set + ((begin + i) & (ways - 1));
    if (kinds_[at] == most && (found == size || counts_[at] < counts_[found])) found = at;
  }
  if (found != size) return found;
  // The new one is the first of its kind, beside others of which there is one each.
  return set + (begin & (ways - 1));
}

bool DenialSampler::wants(uint64_t every, base::Time now) {
  if ((seen_.fetch_add(1, std::memory_order_relaxed) + 1) % every != 0) return false;
  const uint64_t begin = static_cast<uint64_t>(now.us / 1'000'000) << 8;
  constexpr uint64_t seconds_ahead_max = uint64_t{2} << 8;
  uint64_t seen = second_.load(std::memory_order_relaxed);
  for (;;) {
    // Another worker may have read the clock a moment later than this one. A second that is further
    // ahead means that the clock has been set back.
    const uint64_t second = seen & ~uint64_t{255};
    const bool is_other = second < begin || second > begin + seconds_ahead_max;
    const uint64_t next = is_other ? begin + 1 : seen + 1;
    if ((next & 255) > lines_per_second_max) break;
    if (second_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
  passed_over_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

namespace {

// When any worker warned last.
std::atomic<int64_t> warned_us{INT64_MIN};

constexpr size_t warned_bytes_max = 256;

bool is_due(base::Time now) {
  int64_t last = warned_us.load(std::memory_order_relaxed);
  // The clock may have been set back since.
  const bool due = last == INT64_MIN || now.us < last || now.us - last >= LeakWarnings::pause.us;
  return due && warned_us.compare_exchange_strong(last, now.us, std::memory_order_relaxed);
}

}  // namespace

void LeakWarnings::looked(const policy::Plan& plan, const policy::Plan::RequestPlan& part,
                          base::Time now) {
  for (const auto& step : plan.steps(part)) {
    const policy::Rule& rule = *step.rule;
    if (rule.mode != policy::Mode::enforce || plan.charge(step).keeps_limits ||
        rule.counts == limit::all_of(rule.limits))
      continue;
    const auto known = std::ranges::find(looks_, rule.id, &Look::rule);
    Look& look = known != looks_.end() ? *known : looks_[next_++ % looks_.size()];
    look = {rule.id, now};
    any_ = true;
  }
}

// A refusal leaks where something is left: a look passes still.
void LeakWarnings::warn(spdlog::logger& log, const policy::Plan& plan,
                        const policy::Plan::RequestPlan& part, base::Time now) {
  for (const auto& step : plan.steps(part)) {
    const policy::Rule& rule = *step.rule;
    const request::Charge& charge = plan.charge(step);
    if (rule.mode != policy::Mode::enforce || charge.keeps_limits ||
        plan.group(step).error != request::Error::none)
      continue;
    const auto look = std::ranges::find(looks_, rule.id, &Look::rule);
    if (look == looks_.end() || now.us - look->when.us >= pause.us) continue;
    const auto decisions = plan.decisions(step);
    const auto counts = [&](size_t i) {
      return charge.verb == request::Verb::count && limit::has(charge.counts, i);
    };
    // A limit that counted what it refused refuses the next look.
    bool refuses_looks = false;
    for (size_t i = 0; i < decisions.size(); ++i)
      refuses_looks |= counts(i) && decisions[i].remaining < 0;
    if (refuses_looks) continue;
    for (size_t i = 0; i < decisions.size(); ++i) {
      const limit::Decision& d = decisions[i];
      if (d.allowed || counts(i) || d.remaining <= 0) continue;
      if (!is_due(now)) return;
      log.warn(
          "rule [{}] is asked with 0 hits, and refuses reports: {} units of actor {} did not fit "
          "into the {} that are left and are not counted, so the next look passes again; give the "
          "limit `over: count`, or have the clients charge (docs/policy.md)",
          base::printable(rule.name.empty() ? rule.pattern : rule.name, warned_bytes_max),
          charge.cost, base::printable(charge.key, warned_bytes_max), d.remaining);
      return;
    }
  }
}

}  // namespace sluice::engine
