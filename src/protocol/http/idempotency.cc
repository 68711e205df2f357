#include "protocol/http/idempotency.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "wire/structured_fields.h"

namespace sluice::http {
namespace {

using KeptHash = std::array<uint64_t, 2>;

// The hashes are keyed, so their first 64 bits spread as well as any.
struct FirstHashBits {
  size_t operator()(const KeptHash& hash) const { return hash[0]; }
};

// OpenSSL's SipHash. One for each thread, because its setup takes longer than hashing a request.
class SipHash {
 public:
  SipHash() {
    EVP_MAC* const mac = EVP_MAC_fetch(nullptr, "SIPHASH", nullptr);
    SLUICE_CHECK(mac != nullptr);
    context_ = EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac);  // the context holds it
    SLUICE_CHECK(context_ != nullptr);
  }
  ~SipHash() { EVP_MAC_CTX_free(context_); }
  SipHash(const SipHash&) = delete;
  SipHash& operator=(const SipHash&) = delete;

  void start(const std::array<unsigned char, 16>& key) {
    SLUICE_CHECK(EVP_MAC_init(context_, key.data(), key.size(), nullptr) == 1);
  }
  void add(const void* bytes, size_t size) {
    SLUICE_CHECK(EVP_MAC_update(context_, static_cast<const unsigned char*>(bytes), size) == 1);
  }
  KeptHash end() {
    std::array<unsigned char, sizeof(KeptHash)> bytes;
    size_t size = 0;
    SLUICE_CHECK(EVP_MAC_final(context_, bytes.data(), &size, bytes.size()) == 1 &&
                 size == bytes.size());
    return std::bit_cast<KeptHash>(bytes);
  }

 private:
  EVP_MAC_CTX* context_;
};

struct KeptUser;

// One key. Its ticket is not 0 as long as it has no answer.
//
//   under way   in `entries` and `begun`; room for its answer is reserved
//   kept        in `entries` and in the lists of all and of its user, ordered by expiry
struct KeptEntry {
  KeptHash id{}, request{};
  KeptUser* user = nullptr;
  IdempotencyMemory::Ticket ticket = 0;
  base::Time expires{};
  std::string answer{};
  // Links of two lists, by KeptScope::link: of all entries, and of the user's.
  std::array<KeptEntry*, 2> before{}, behind{};

  size_t bytes() const {
    return idempotent_entry_bytes + (ticket != 0 ? idempotent_answer_bytes_max : answer.size());
  }
};

// The memory in use by a scope, which is one user or all of them, and its kept entries. `link` is
// the index of its links in an entry.
struct KeptScope {
  size_t link = 0, bytes_max = 0, bytes = 0;
  KeptEntry *oldest = nullptr, *newest = nullptr;  // of the kept entries

  bool has_room() const {
    return bytes_max >= idempotent_begun_bytes && bytes <= bytes_max - idempotent_begun_bytes;
  }

  bool has_expired(base::Time now) const { return oldest != nullptr && oldest->expires <= now; }

  void push(KeptEntry& entry) {
    entry.before[link] = newest;
    (newest != nullptr ? newest->behind[link] : oldest) = &entry;
    newest = &entry;
  }
  void remove(KeptEntry& entry) {
    KeptEntry *const before = entry.before[link], *const behind = entry.behind[link];
    (before != nullptr ? before->behind[link] : oldest) = behind;
    (behind != nullptr ? behind->before[link] : newest) = before;
  }

  // The time until expiry makes room for a new key.
  base::Duration until_room(base::Time now) const {
    constexpr base::Duration least = base::milliseconds(1), unknown = base::seconds(1);
    KeptScope then = *this;
    for (const KeptEntry* entry = oldest; entry != nullptr; entry = entry->behind[link]) {
      then.bytes -= entry->bytes();
      if (then.has_room()) return std::max(least, {entry->expires.us - now.us});
    }
    return unknown;
  }
};

struct KeptUser {
  KeptHash id{};
  size_t holders = 0;
  KeptScope scope{};
};

// An entry costs a node in `entries`, a node in `begun` while it is under way, and for a user's
// first entry the user's record; each with the overhead of the hash table and the allocator.
static_assert(sizeof(KeptEntry) + sizeof(KeptUser) + 3 * 2 * sizeof(KeptHash) + 3 * 16 <=
              idempotent_entry_bytes);

}  // namespace

// The mutex guards all members that are not constant.
struct IdempotencyMemory::State {
  // The most expired entries that one `begin` drops besides those whose room it needs, so that it
  // does not hold the lock for long.
  static constexpr size_t dropped_at_once = 64;
  static constexpr size_t reserved_max = size_t{1} << 20;

  explicit State(const Bounds& bounds)
      : ttl(bounds.ttl), user_bytes(bounds.bytes / std::max<size_t>(bounds.user_part, 1)) {
    SLUICE_CHECK(RAND_bytes(secret.data(), static_cast<int>(secret.size())) == 1);
    all.bytes_max = bounds.bytes;
    // The table must not grow while other threads wait for the lock.
    entries.reserve(std::min(bounds.bytes / idempotent_entry_bytes, reserved_max));
  }

  // The lengths are hashed first, so that different lists of `count` texts are different bytes.
  template <size_t count>
  KeptHash hash(const std::array<std::string_view, count>& texts) const {
    thread_local SipHash siphash;
    std::array<uint64_t, count> sizes{};
    for (size_t i = 0; i < count; ++i) sizes[i] = texts[i].size();
    siphash.start(secret);
    siphash.add(sizes.data(), sizeof sizes);
    for (const std::string_view text : texts) siphash.add(text.data(), text.size());
    return siphash.end();
  }

  // An entry's bytes count in both of its scopes.
  void charge(KeptUser& user, size_t bytes) {
    all.bytes += bytes;
    user.scope.bytes += bytes;
  }
  void give_back(KeptUser& user, size_t bytes) {
    all.bytes -= bytes;
    user.scope.bytes -= bytes;
  }

  bool has_room_for(const KeptUser& user, size_t bytes) const {
    return bytes <= all.bytes_max - all.bytes && bytes <= user.scope.bytes_max - user.scope.bytes;
  }

  // A user's record exists as long as an entry of the user or a call of `begin` holds it.
  KeptUser& hold_user(const KeptHash& id, size_t bytes_max) {
    KeptUser& user = users[id];
    if (user.holders++ == 0) {
      user.id = id;
      user.scope.link = 1;
      user.scope.bytes_max = bytes_max;
    }
    return user;
  }
  void release_user(KeptUser& user) {
    const KeptHash id = user.id;
    if (--user.holders == 0) users.erase(id);
  }

  // The entry must not be in a list.
  void drop(KeptEntry& entry) {
    const KeptHash id = entry.id;
    give_back(*entry.user, entry.bytes());
    release_user(*entry.user);
    entries.erase(id);
  }
  void expire(KeptEntry& entry) {
    all.remove(entry);
    entry.user->scope.remove(entry);
    drop(entry);
  }

  void drop_expired(base::Time now) {
    for (size_t i = 0; i < dropped_at_once && all.has_expired(now); ++i) expire(*all.oldest);
  }
  // Drops expired entries until there is room for a key. False: there is still no room.
  bool make_room(KeptScope& scope, base::Time now) {
    while (!scope.has_room() && scope.has_expired(now)) expire(*scope.oldest);
    return scope.has_room();
  }

  Result add(const KeptHash& id, const KeptHash& request, KeptUser& user) {
    KeptEntry& entry = entries[id];
    entry.id = id;
    entry.request = request;
    entry.user = &user;
    entry.ticket = ++last_ticket;
    charge(user, entry.bytes());
    begun.emplace(entry.ticket, &entry);
    return {Found::begun, entry.ticket, {}};
  }

  // The caller holds `user`: the new entry takes over the hold; without room it is released.
  Result add_if_there_is_room(const KeptHash& id, const KeptHash& request, KeptUser& user,
                              base::Time now) {
    const bool user_fits = make_room(user.scope, now), all_fit = make_room(all, now);
    if (user_fits && all_fit) return add(id, request, user);
    base::Duration wait{};
    if (!user_fits) wait = user.scope.until_room(now);
    if (!all_fit) wait = std::max(wait, all.until_room(now));
    release_user(user);
    return {Found::full, 0, wait};
  }

  // Removes the ticket and returns its entry; null: the ticket is unknown.
  KeptEntry* take_begun(Ticket ticket) {
    const auto at = begun.find(ticket);
    if (at == begun.end()) return nullptr;
    KeptEntry* const entry = at->second;
    begun.erase(at);
    return entry;
  }

  const base::Duration ttl;
  const size_t user_bytes;
  std::array<unsigned char, 16> secret{};

  mutable std::mutex mutex;
  std::unordered_map<KeptHash, KeptEntry, FirstHashBits> entries;
  std::unordered_map<KeptHash, KeptUser, FirstHashBits> users;
  std::unordered_map<Ticket, KeptEntry*> begun;
  Ticket last_ticket = 0;
  KeptScope all;
};

IdempotencyMemory::IdempotencyMemory(const Bounds& bounds)
    : state_(std::make_unique<State>(bounds)) {}

IdempotencyMemory::~IdempotencyMemory() = default;

IdempotencyMemory::Result IdempotencyMemory::begin(std::string_view user, std::string_view key,
                                                   std::array<std::string_view, 3> request,
                                                   base::Time now, std::string& answer) {
  State& state = *state_;
  const KeptHash user_id = state.hash<1>({user});
  const KeptHash id = state.hash<2>({user, key});
  const KeptHash asked = state.hash(request);

  const std::lock_guard lock(state.mutex);
  state.drop_expired(now);
  if (const auto at = state.entries.find(id); at != state.entries.end()) {
    KeptEntry& entry = at->second;
    const bool is_kept = entry.ticket == 0;
    if (is_kept && entry.expires <= now) {
      state.expire(entry);
    } else {
      if (entry.request != asked) return {Found::reused, 0, {}};
      if (!is_kept) return {Found::under_way, 0, {}};
      answer = entry.answer;
      return {Found::kept, 0, {}};
    }
  }
  KeptUser& holder =
      state.hold_user(user_id, user.empty() ? state.all.bytes_max : state.user_bytes);
  return state.add_if_there_is_room(id, asked, holder, now);
}

void IdempotencyMemory::finish(Ticket ticket, std::string_view answer, base::Time now) {
  State& state = *state_;
  std::string text(answer);  // allocated without the lock
  const std::lock_guard lock(state.mutex);
  KeptEntry* const entry = state.take_begun(ticket);
  if (entry == nullptr) return;
  if (text.size() > idempotent_answer_bytes_max &&
      !state.has_room_for(*entry->user, text.size() - idempotent_answer_bytes_max))
    text.clear();
  state.give_back(*entry->user, idempotent_answer_bytes_max);
  state.charge(*entry->user, text.size());
  entry->ticket = 0;
  entry->answer = std::move(text);
  entry->expires = {now.us + state.ttl.us};
  // Threads may get the lock in another order than they read the clock; the lists stay in order.
  if (state.all.newest != nullptr)
    entry->expires = std::max(entry->expires, state.all.newest->expires);
  state.all.push(*entry);
  entry->user->scope.push(*entry);
}

void IdempotencyMemory::forget(Ticket ticket) {
  const std::lock_guard lock(state_->mutex);
  if (KeptEntry* const entry = state_->take_begun(ticket)) state_->drop(*entry);
}

IdempotencyMemory::Held IdempotencyMemory::held() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->entries.size(), state_->all.bytes, state_->users.size()};
}

bool parse_idempotency_key(std::string_view value, std::string& to) {
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  to.clear();
  const size_t first = value.find_first_not_of(' ');
  if (first == value.npos) return false;
  if (value[first] == '"') {
    if (!wire::parse_sf_string(value, to)) return false;
  } else {
    to = value.substr(first, value.find_last_not_of(' ') + 1 - first);
  }
  return !to.empty() && to.size() <= idempotency_key_bytes_max &&
         std::all_of(to.begin(), to.end(), is_printable);
}

}  // namespace sluice::http
