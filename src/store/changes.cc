#include "store/changes.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace sluice::store {

void Changes::remove(size_t stripe, Ref entry) {
  auto& list = lists_[stripe];
  // An entry that is removed has mostly changed a moment ago, so it stands near the end.
  const auto at = std::find(list.rbegin(), list.rend(), entry);
  SLUICE_CHECK(at != list.rend());
  *at = list.back();
  list.pop_back();
}

bool Changes::grow(size_t stripe, size_t count) noexcept {
  auto& list = lists_[stripe];
  try {
    list.reserve(std::max(2 * list.capacity(), list.size() + count));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Changes::Note Changes::note_of(request::HoldNote& note) {
  Notes one;
  one.emplace(std::pair(uint64_t{0}, note.name()), Kept{note.shared_from_this(), note.is_first()});
  return one.extract(one.begin());
}

void Changes::add_note(uint64_t number, Note note) noexcept {
  const std::lock_guard lock(notes_mutex_);
  insert_note(number, std::move(note));
}

// The collector opens the next number first and takes the notes afterwards.
void Changes::add_note(Note note) noexcept {
  const std::lock_guard lock(notes_mutex_);
  insert_note(open_.load(), std::move(note));
}

// A later note of a commit takes the place of an earlier one; of what came and went in one commit
// nothing is left.
void Changes::insert_note(uint64_t number, Note note) noexcept {
  note.key().first = number;
  const auto before = notes_.find(note.key());
  if (before == notes_.end()) {
    notes_.insert(std::move(note));
  } else if (before->second.is_first && note.mapped().note->is_gone()) {
    notes_.erase(before);
  } else {
    before->second.note = std::move(note.mapped().note);
  }
  if (last_.load(std::memory_order_relaxed) < number) raise_last(number);
}

void Changes::raise_last(uint64_t to) {
  uint64_t last = last_.load();
  while (last < to && !last_.compare_exchange_weak(last, to)) {
  }
}

}  // namespace sluice::store
