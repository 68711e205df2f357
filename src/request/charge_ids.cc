#include "request/charge_ids.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"
#include "limit/calendar.h"

namespace sluice::request {
namespace {

struct IdUser;

// One id. While it is under way it is in no list.
struct IdEntry {
  std::string_view name{};  // its key in the map
  uint64_t content = 0;
  IdUser* user = nullptr;
  bool is_under_way = true;
  base::Time expires{};
  std::string answer{};
  // Links of two lists, by IdScope::link: of all entries, and of the user's.
  std::array<IdEntry*, 2> before{}, behind{};
};

// The memory that one user uses, or all of them, and the remembered entries, the oldest first.
struct IdScope {
  size_t link = 0, bytes = 0;
  IdEntry *oldest = nullptr, *newest = nullptr;

  void push(IdEntry& entry) {
    entry.before[link] = newest;
    entry.behind[link] = nullptr;
    (newest != nullptr ? newest->behind[link] : oldest) = &entry;
    newest = &entry;
  }
  void remove(IdEntry& entry) {
    IdEntry *const before = entry.before[link], *const behind = entry.behind[link];
    (before != nullptr ? before->behind[link] : oldest) = behind;
    (behind != nullptr ? behind->before[link] : newest) = before;
  }
};

struct IdUser {
  std::string name;
  size_t entries = 0;
  IdScope scope{.link = 1};
};

// What an entry takes beside its texts: its node and its place in the table, with what the
// allocator adds, and for a user's first entry the user's record.
constexpr size_t entry_bytes = sizeof(IdEntry) + sizeof(IdUser) + 128;

constexpr char name_separator = '\0';

std::string name_of(std::string_view user, std::string_view id) {
  std::string name;
  name.reserve(user.size() + 1 + id.size());
  name.append(user);
  name += name_separator;
  return name.append(id);
}

// Clients choose the ids, so the hash has a secret.
struct NameHash {
  base::Hash hash;
  size_t operator()(const std::string& name) const { return hash(0, name); }
};

}  // namespace

bool is_charge_id(std::string_view id) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return id.size() >= charge_id_bytes_min && id.size() <= charge_id_bytes_max &&
         std::all_of(id.begin(), id.end(), is_letter);
}

// ---- Content ----

void ChargeContent::add_number(int64_t number) {
  text_.append(std::to_string(number)) += ';';
}

// With its size, so that different texts are different bytes.
void ChargeContent::add_text(std::string_view text) {
  add_number(static_cast<int64_t>(text.size()));
  text_.append(text);
}

void ChargeContent::add_entries(std::vector<Entry> entries, int64_t n) {
  // A rule may look at the order of entries of one key.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.key < b.key; });
  text_ += 'e';
  add_number(n);
  add_number(static_cast<int64_t>(entries.size()));
  for (const Entry& entry : entries) {
    add_text(entry.key);
    add_text(entry.value);
  }
}

void ChargeContent::add_key(std::string_view key, int64_t n) {
  text_ += 'k';
  add_number(n);
  add_text(key);
}

void ChargeContent::add_limit(const limit::Limit& limit, bool counts, int64_t overdraft) {
  text_ += 'l';
  add_text(name_of(limit.algorithm));
  add_number(limit.quota);
  add_number(limit.window.us);
  add_number(limit.burst);
  if (limit.calendar) add_text(limit.calendar.text());
  text_ += counts ? 'c' : 'r';
  if (overdraft < limit::Overdrafts::none) add_number(overdraft);
}

uint64_t ChargeContent::digest() const {
  return base::digest(text_);
}

// ---- Ids ----

// The mutex guards all members that are not constant.
struct ChargeIds::State {
  // The most expired entries that one claim drops, so that it does not hold the lock for long.
  static constexpr size_t dropped_at_once = 16;
  static constexpr size_t reserved_max = size_t{1} << 18;

  explicit State(const Bounds& bounds)
      : remember(bounds.remember),
        bytes_max(bounds.bytes),
        user_bytes_max(bounds.bytes / std::max<size_t>(bounds.user_part, 1)) {}

  static size_t bytes_of(const IdEntry& entry) {
    return entry_bytes + entry.name.size() + entry.answer.size();
  }
  void count(IdEntry& entry) {
    all.bytes += bytes_of(entry);
    entry.user->scope.bytes += bytes_of(entry);
  }
  void uncount(IdEntry& entry) {
    all.bytes -= bytes_of(entry);
    entry.user->scope.bytes -= bytes_of(entry);
  }

  // The entry must be in no list.
  void erase(IdEntry& entry) {
    uncount(entry);
    IdUser& user = *entry.user;
    entries.erase(entries.find(std::string(entry.name)));
    if (--user.entries == 0) users.erase(users.find(user.name));
  }
  void forget(IdEntry& entry) {
    all.remove(entry);
    entry.user->scope.remove(entry);
    erase(entry);
  }

  bool has_expired(const IdEntry& entry, base::Time now) const {
    return !entry.is_under_way && entry.expires <= now;
  }
  void drop_expired(base::Time now) {
    for (size_t i = 0; i < dropped_at_once; ++i) {
      if (all.oldest == nullptr || !has_expired(*all.oldest, now)) return;
      forget(*all.oldest);
    }
  }
  void forget_before_its_time(IdEntry& entry) {
    ++forgotten;
    forget(entry);
  }
  // Makes room for what was counted already. `kept` stays.
  void make_room(const IdEntry& kept) {
    IdScope& its = kept.user->scope;
    const bool has_user = !kept.user->name.empty();
    while (has_user && its.bytes > user_bytes_max && its.oldest != nullptr && its.oldest != &kept)
      forget_before_its_time(*its.oldest);
    while (all.bytes > bytes_max && all.oldest != nullptr && all.oldest != &kept)
      forget_before_its_time(*all.oldest);
  }

  const base::Duration remember;
  const size_t bytes_max, user_bytes_max;

  mutable std::mutex mutex;
  std::unordered_map<std::string, IdEntry, NameHash> entries;
  std::unordered_map<std::string, IdUser, NameHash> users;
  IdScope all;
  size_t under_way = 0;
  uint64_t forgotten = 0;
  mutable uint64_t repeated = 0;
};

ChargeIds::ChargeIds() : ChargeIds(Bounds()) {}
ChargeIds::ChargeIds(const Bounds& bounds) : state_(std::make_unique<State>(bounds)) {}
ChargeIds::~ChargeIds() = default;

ChargeIds::Found ChargeIds::claim(std::string_view user, std::string_view id, uint64_t content,
                                  base::Time now, Claim& claim) {
  State& state = *state_;
  const std::string name = name_of(user, id);  // allocated without the lock
  const std::string user_name(user);
  const std::lock_guard lock(state.mutex);
  // So the table does not grow while other threads wait for the lock.
  if (state.entries.empty())
    state.entries.reserve(std::min(state.bytes_max / entry_bytes, State::reserved_max));
  state.drop_expired(now);
  if (const auto at = state.entries.find(name); at != state.entries.end()) {
    IdEntry& entry = at->second;
    if (!state.has_expired(entry, now)) {
      if (entry.content != content) return Found::other_content;
      return entry.is_under_way ? Found::under_way : Found::remembered;
    }
    state.forget(entry);
  }
  const auto added = state.entries.try_emplace(name).first;
  IdEntry& entry = added->second;
  entry.name = added->first;
  entry.content = content;
  entry.user = &state.users.try_emplace(user_name).first->second;
  entry.user->name = user_name;
  ++entry.user->entries;
  state.count(entry);
  state.make_room(entry);
  if (state.all.bytes > state.bytes_max) {
    state.erase(entry);
    return Found::full;
  }
  ++state.under_way;
  claim = Claim(*this, &entry);
  return Found::first;
}

ChargeIds::Found ChargeIds::find(std::string_view user, std::string_view id, uint64_t content,
                                 base::Time now, std::string& answer) const {
  const State& state = *state_;
  const std::string name = name_of(user, id);
  const std::lock_guard lock(state.mutex);
  const auto at = state.entries.find(name);
  if (at == state.entries.end() || state.has_expired(at->second, now)) return Found::unknown;
  const IdEntry& entry = at->second;
  if (entry.content != content) return Found::other_content;
  if (entry.is_under_way) return Found::under_way;
  answer = entry.answer;
  ++state.repeated;
  return Found::remembered;
}

void ChargeIds::Claim::finish(std::string answer, base::Time now) {
  if (ids_ == nullptr) return;
  State& state = *std::exchange(ids_, nullptr)->state_;
  IdEntry& entry = *static_cast<IdEntry*>(std::exchange(entry_, nullptr));
  const std::lock_guard lock(state.mutex);
  --state.under_way;
  state.uncount(entry);
  entry.answer = std::move(answer);
  entry.is_under_way = false;
  entry.expires = {now.us + state.remember.us};
  // Threads may get the lock in another order than they read the clock; the lists stay in order.
  if (state.all.newest != nullptr)
    entry.expires = std::max(entry.expires, state.all.newest->expires);
  state.count(entry);
  state.all.push(entry);
  entry.user->scope.push(entry);
  state.make_room(entry);
}

void ChargeIds::Claim::drop() {
  if (ids_ == nullptr) return;
  State& state = *std::exchange(ids_, nullptr)->state_;
  IdEntry& entry = *static_cast<IdEntry*>(std::exchange(entry_, nullptr));
  const std::lock_guard lock(state.mutex);
  --state.under_way;
  state.erase(entry);
}

ChargeIds::Figures ChargeIds::figures() const {
  const State& state = *state_;
  const std::lock_guard lock(state.mutex);
  return {state.entries.size() - state.under_way, state.under_way, state.all.bytes, state.repeated,
          state.forgotten};
}

}  // namespace sluice::request
