// The table's part in a store that keeps counters elsewhere as well: it records which counters
// changed, and restores stored ones.

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "limit/decide.h"
#include "limit/left_out.h"
#include "store/embedded_store.h"

namespace sluice::store {

using limit::State;

namespace {

// The time from which a counter with the entry's cells equals a fresh one.
int64_t end_us(const Entry& entry) {
  int64_t end_us = INT64_MIN;
  for (size_t cell = 0; cell < entry.cells(); ++cell)
    end_us = std::max(end_us, entry.cell(cell).fresh_at_us);
  return end_us;
}

int64_t end_us(const PendingCharge& s) {
  int64_t end_us = INT64_MIN;
  for (size_t cell = 0; cell < s.cells; ++cell)
    end_us = std::max(end_us, s.next.data()[cell].fresh_at_us);
  return end_us;
}

// When the counter may be forgotten, as the sweep sees it.
int64_t forget_us(const Entry& entry, const request::Space& space) {
  if (entry.keeps_limits()) return INT64_MAX;  // until it is purged
  const int64_t fresh_at_us = end_us(entry);
  return fresh_at_us > INT64_MAX - space.keep_fresh_for.us ? INT64_MAX
                                                           : fresh_at_us + space.keep_fresh_for.us;
}

bool holds(const Entry& entry, const State* cells) {
  for (size_t i = 0; i < entry.cells(); ++i)
    if (entry.cell(i) != cells[i]) return false;
  return true;
}

}  // namespace

void EmbeddedStore::keep_changes() {
  changes_ = std::make_unique<Changes>();
}

void EmbeddedStore::write_noted(PendingCharge& s) {
  // Most refusals change nothing.
  if (s.entry->limits_id() == s.charge->limits_id && s.entry->leaves_out() == (s.left_out > 0) &&
      holds(*s.entry, s.next.data()))
    return;
  if (s.entry->stored() && end_us(s) < end_us(*s.entry)) s.entry->set_outlived(true);
  s.write();
  note(stripe_of(s.charge->hash), *s.entry);
}

// The counter moves from its entry to `place`, which is to hold `next`: takes its flags along. The
// disk's record of it stays valid.
void EmbeddedStore::move_note(const PendingCharge& s, Entry& place) {
  const Entry& entry = *s.entry;
  if (entry.dirty()) changes_->remove(stripe_of(s.charge->hash), region_.ref_of(s.entry));
  if (entry.newer()) place.set_newer();
  place.set_stored(entry.stored());
  place.set_outlived(entry.outlived() || (entry.stored() && end_us(s) < end_us(entry)));
}

// Erases the counter. Its entry stays in the table until the disk does not hold the counter either.
void EmbeddedStore::erase_noted(size_t stripe, Entry& entry) {
  entry.clear();
  entry.set_erased(true);
  if (entry.stored()) entry.set_outlived(true);
  note(stripe, entry);
}

void EmbeddedStore::note(size_t stripe, Entry& entry) {
  if (loading_.load(std::memory_order_relaxed)) entry.set_newer();
  if (entry.dirty()) return;
  entry.set_dirty(true);
  changes_->add(stripe, region_.ref_of(&entry));
}

void EmbeddedStore::erase(PendingCharge& s) {
  if (changes_ == nullptr) {
    locked_of(*s.charge).stripe.erase(region_, s.charge->hash, s.entry);
    s.entry = nullptr;
    return;
  }
  erase_noted(stripe_of(s.charge->hash), *s.entry);
}

void EmbeddedStore::collect(const request::VisitCounter& visit) {
  Cells cells;
  changes_->each_stripe([&](size_t stripe) {
    for (bool more = true; more;) {
      const std::lock_guard lock((*table_)[stripe].mutex);
      auto& list = changes_->list(stripe);
      for (size_t left = std::min(list.size(), collected_per_lock); left > 0; --left) {
        auto& entry = *static_cast<Entry*>(region_.at(list.back()));
        const request::Space& space = spaces_.at(entry.space());
        request::CounterRecord record{
            .space = &space, .limits_id = entry.limits_id(), .key = entry.key(), .cells = {}};
        if (!entry.erased()) {
          entry.load(cells.data());
          record.cells = {cells.data(), entry.cells()};
          record.forget_us = forget_us(entry, space);
        }
        visit(record);  // if it throws, the counter still counts as changed
        list.pop_back();
        entry.set_dirty(false);
        // Until all is loaded, a lookup on the disk may still find the folded record.
        if (loading_.load()) {
          entry.set_stored(true);
        } else {
          entry.set_stored(!entry.erased());
          entry.set_outlived(false);
        }
      }
      more = !list.empty();
    }
  });
}

// A changed counter that equals a fresh one need not be committed. The state that the disk has of
// it expired no later than this one (otherwise the entry is Entry::outlived), so that one equals a
// fresh one, too.
void EmbeddedStore::sweep_changed(base::Time now) {
  using std::chrono::steady_clock;
  const bool pressed = is_pressed();
  const auto end = steady_clock::now() + (pressed ? pressed_time_max : time_max);
  const Sweep sweep{.now = now, .spaces = pressed ? nullptr : &spaces_};
  for (size_t i = 0; i < stripes && steady_clock::now() < end; ++i) {
    Locked& locked = (*table_)[changed_stripe_];
    auto& list = changes_->list(changed_stripe_);
    changed_stripe_ = (changed_stripe_ + 1) % stripes;
    for (size_t at = 0;;) {
      const std::lock_guard lock(locked.mutex);
      if (at >= list.size()) break;
      for (size_t left = collected_per_lock; left > 0 && at < list.size(); --left) {
        auto* const entry = static_cast<Entry*>(region_.at(list[at]));
        if (!sweep.drops_changed(*entry)) {
          ++at;
          continue;
        }
        list[at] = list.back();
        list.pop_back();
        locked.stripe.erase(region_, hash_(entry->space(), entry->key()), entry);
        swept_.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
}

void EmbeddedStore::reserve(uint64_t counters) {
  const auto each =
      static_cast<uint32_t>(std::min(counters, region_.bytes_max() / sizeof(Entry)) / stripes);
  for (auto& locked : *table_) {
    const std::lock_guard lock(locked.mutex);
    locked.stripe.reserve(each);
  }
}

Restored EmbeddedStore::restore(const request::CounterRecord& record, bool newest, Part part,
                                const base::Time* now) {
  const request::Space& space = *record.space;
  const uint64_t hash = hash_(space.id, record.key);
  if (stripe_of(hash) % part.of != part.number) return Restored::yes;
  const bool keeps_limits = !space.windows.empty();
  auto cells = record.cells;
  bool leaves_out = false;
  Restored result = Restored::yes;
  if (!cells.empty()) {
    const bool fits = keeps_limits
                          ? cells.size() <= limit::counter_cells_max && record.limits_id == 0
                          : record.limits_id != 0 &&
                                limit::left_out::fits(spaces_.limits(record.limits_id), cells);
    if (fits && !keeps_limits)
      leaves_out = cells.size() > limit::cells(spaces_.limits(record.limits_id));
    if (!fits) {
      result = Restored::nonsense;
      cells = {};
    }
  }
  const size_t count = std::max<size_t>(cells.size(), 1);
  Locked& locked = (*table_)[stripe_of(hash)];
  const std::lock_guard lock(locked.mutex);
  Entry* entry = locked.stripe.find(region_, hash, space.id, record.key);
  if (entry != nullptr && !newest) return result;
  // All counters are loaded, and this one is not among them: the record was read before it was
  // dropped.
  if (!newest && !loading_.load()) return result;
  if (entry != nullptr && entry->cells() != count) {
    SLUICE_CHECK(!entry->dirty() && !entry->waited_for());
    locked.stripe.erase(region_, hash, entry);
    entry = nullptr;
  }
  if (entry == nullptr && now != nullptr && is_pressed())
    entry = insert_replacing(locked.stripe, hash, space, record.key, count,
                             {.now = *now, .loading = true, .replaces = true});
  else if (entry == nullptr)
    entry = locked.stripe.insert(region_, hash_, hash, space.id, record.key, count);
  if (entry == nullptr) return Restored::no_memory;
  if (newest) entry->set_newer();
  // A folded record is older than one from a block of the journal, and may expire later.
  entry->set_stored(newest || !record.cells.empty());
  entry->set_outlived(newest);
  entry->set_erased(cells.empty());
  if (cells.empty()) {
    entry->clear();
    return result;
  }
  entry->store(cells.data());
  entry->set_limits_id(record.limits_id, leaves_out);
  if (keeps_limits) entry->set_keeps_limits();
  if (space.keep_fresh_for.us > 0) entry->set_keeps_fresh();
  return result;
}

size_t EmbeddedStore::purge_noted(base::Time now) {
  if (loading_.load()) return 0;
  const Sweep sweep{.now = now, .purges = true, .spaces = &spaces_};
  size_t gone = 0;
  each_step([&](Stripe& stripe, uint32_t from) {
    for (uint32_t chain = from; chain < std::min(from + sweep_chains_per_lock, stripe.chains());
         ++chain) {
      stripe.each(region_, chain, [&](Entry& entry) {
        if (!sweep.drops(entry)) return;
        erase_noted(stripe.index(), entry);
        ++gone;
      });
    }
  });
  purged_.fetch_add(gone, std::memory_order_relaxed);
  return gone;
}

}  // namespace sluice::store
