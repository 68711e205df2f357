#include "redis/redis_metadata_store.h"

#include <hiredis/hiredis.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/printable.h"
#include "limit/calendar.h"
#include "redis/cluster_map.h"
#include "redis/topology.h"

namespace sluice::redis {

namespace {

constexpr size_t slots_min = 16;
constexpr size_t first_place = 2;

}  // namespace

std::string_view NameSet::name_at(uint32_t place) const {
  uint32_t size;
  const char* const at = bytes_.data() + (place - first_place);
  std::memcpy(&size, at, sizeof size);
  return {at + sizeof size, size};
}

// The slot at which the search for a name begins.
size_t NameSet::first_slot(std::string_view name) const {
  static const base::Hash hash;
  return hash(0, name) & (table_.size() - 1);
}

// The slot of a name; table_.size(): it is not in the set.
size_t NameSet::find(std::string_view name) const {
  if (table_.empty()) return 0;
  const size_t mask = table_.size() - 1;
  for (size_t slot = first_slot(name);; slot = (slot + 1) & mask) {
    if (table_[slot] == free) return table_.size();
    if (table_[slot] > gone && name_at(table_[slot]) == name) return slot;
  }
}

size_t NameSet::longest_search() const {
  size_t longest = 0;
  each([&](std::string_view name) {
    const size_t first = first_slot(name), slots = table_.size();
    longest = std::max(longest, (find(name) + slots - first) % slots + 1);
  });
  return longest;
}

bool NameSet::contains(std::string_view name) const {
  return find(name) < table_.size();
}

bool NameSet::insert(std::string_view name) {
  if (contains(name)) return false;
  if (4 * (used_ + 1) > 3 * table_.size()) grow();
  const size_t mask = table_.size() - 1;
  size_t slot = first_slot(name);
  while (table_[slot] > gone) slot = (slot + 1) & mask;
  if (table_[slot] == free) ++used_;
  const size_t place = first_place + bytes_.size();
  SLUICE_CHECK(place + sizeof(uint32_t) + name.size() <= UINT32_MAX);
  const auto size = static_cast<uint32_t>(name.size());
  bytes_.append(reinterpret_cast<const char*>(&size), sizeof size).append(name);
  table_[slot] = static_cast<uint32_t>(place);
  ++size_;
  return true;
}

bool NameSet::erase(std::string_view name) {
  const size_t slot = find(name);
  if (slot >= table_.size()) return false;
  table_[slot] = gone;
  --size_;
  return true;
}

// Makes room for twice as many names, and drops the bytes of erased ones.
void NameSet::grow() {
  NameSet other;
  size_t slots = slots_min;
  while (slots < 3 * size_) slots *= 2;
  other.table_.assign(slots, free);
  each([&](std::string_view name) { other.insert(name); });
  *this = std::move(other);
}

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds look_every{25};
// A pause between steps of a long pass, so that writers get their turn.
constexpr milliseconds let_others{1};
constexpr milliseconds pause_min{50}, pause_max{1000};
// Servers tell their data of time zones so often, with up to as much again between two times, so
// that none stays in step with another.
constexpr microseconds zones_told_every = std::chrono::seconds(2);
constexpr std::chrono::seconds zones_shown{60};
// How many changes are delivered at a time, and how many texts a step of a pass fetches.
constexpr size_t told_at_once = 1000;
constexpr std::string_view scanned_at_once = "1000";

// KEYS: texts, version, changes. ARGV: how many changes stay listed; then of each a sign, the name,
// the text and what has to be there. Signs: `+` sets, `-` deletes, `+?` and `-?` only if that is
// there. What changes nothing is not listed. What is there is looked at before anything is written,
// so that it is all or nothing.
constexpr std::string_view write_text = R"lua(
local call, A = redis.call, ARGV
local version = call('GET', KEYS[2])
local n = 0
if version then
  n = tonumber(string.match(version, '^(%d+) %d+$'))
  if not n then return {err = 'FOREIGN the value of ' .. KEYS[2] .. ' is not a version'} end
end
call('HLEN', KEYS[1])
call('LLEN', KEYS[3])
local t = call('TIME')
local now = t[1] .. string.rep('0', 6 - #t[2]) .. t[2]
local listed = n
for i = 2, #A, 4 do
  local sign, name, changed = A[i], A[i + 1], false
  if #sign == 1 or call('HGET', KEYS[1], name) == A[i + 3] then
    if string.sub(sign, 1, 1) == '+' then
      call('HSET', KEYS[1], name, A[i + 2])
      changed = true
    else
      changed = call('HDEL', KEYS[1], name) == 1
    end
  end
  if changed then
    call('RPUSH', KEYS[3], now .. ' ' .. name)
    n = n + 1
  end
end
if n == listed then return 0 end
call('LTRIM', KEYS[3], -tonumber(A[1]), -1)
call('SET', KEYS[2], string.format('%.0f', n) .. ' ' .. now)
return n - listed
)lua";

// KEYS: as above. ARGV: a position, and how many changes at most. Reply: the version alone: nothing
// is new; the version and `all`: the changes since are not listed any more; or a position and what
// has changed up to there, each with its text, or none.
constexpr std::string_view fetch_text = R"lua(
local call = redis.call
local version = call('GET', KEYS[2])
if not version then
  if ARGV[1] == '' then return {''} end
  return {'', 'all'}
end
if version == ARGV[1] then return {version} end
local n = tonumber(string.match(version, '^(%d+) %d+$'))
if not n then return {err = 'FOREIGN the value of ' .. KEYS[2] .. ' is not a version'} end
local from, at = string.match(ARGV[1], '^(%d+) (%d+)$')
if not from then return {version, 'all'} end
local new = n - tonumber(from)
-- The change that is known has to be where it was.
local known = new >= 0 and call('LINDEX', KEYS[3], -(new + 1))
if not known or string.match(known, '^%d+') ~= at then return {version, 'all'} end
local last = math.min(new, tonumber(ARGV[2]))
local names = call('LRANGE', KEYS[3], -new, last - new - 1)
local out = {''}
for i = 1, #names do
  local name = string.match(names[i], '^%d+ (.*)$')
  out[#out + 1] = name
  out[#out + 1] = call('HGET', KEYS[1], name)
end
out[1] = string.format('%.0f', tonumber(from) + #names) .. ' ' .. string.match(names[#names], '^%d+')
return out
)lua";

bool is_foreign(std::string_view error) {
  return error.starts_with("WRONGTYPE") || error.starts_with("FOREIGN");
}

// Of a call that has no answer, or one that does not help.
base::Problem problem_of(const Answer& answer, const BlockingConnection& line) {
  return base::Problem{answer ? base::printable(text_of(*answer), 256) : line.problem()};
}

base::Problem stops() {
  return base::Problem{"the server stops"};
}

}  // namespace

// In Redis Cluster all keys are in one slot.
RedisMetadataStore::Keys RedisMetadataStore::keys_for(const Shared& shared) {
  const std::string kept =
      shared.options.key_prefix + (shared.first.has_slots() ? "{kept}" : "kept");
  return {kept, kept + ":version", kept + ":changes", kept + ":none", kept + ":zones"};
}

RedisMetadataStore::RedisMetadataStore(Shared& shared)
    : shared_(shared),
      keys_(keys_for(shared)),
      write_(std::string(write_text)),
      fetch_(std::string(fetch_text)),
      random_(std::random_device()()) {}

RedisMetadataStore::~RedisMetadataStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Connects to the first node that takes writes, otherwise to one that can be read.
base::Result<std::unique_ptr<BlockingConnection>> RedisMetadataStore::connect(
    const std::atomic<bool>* stop) const {
  const auto endpoint = shared_.first.primary_of(slot_of(keys_.texts));
  if (!endpoint) return base::Problem{"no primary is known that has their slot"};
  std::unique_ptr<BlockingConnection> reader;
  base::Problem problem = not_resolved(endpoint->options);
  for (const net::Address& address : endpoint->resolver.addresses()) {
    auto line = std::make_unique<BlockingConnection>(stop);
    if (!line->open(endpoint->options, shared_.first.tls(), address)) {
      problem.text = line->problem();
      continue;
    }
    // Deletes a key that never exists, which fails on a replica.
    const Answer probe = line->ask({"DEL", keys_.none});
    if (!is_error(probe)) return line;
    problem = problem_of(probe, *line);
    if (is_elsewhere(probe)) {
      if (const auto to = redirect_of(problem.text, endpoint->options.nodes.front().host);
          to && !to->ask)
        shared_.first.follow(*to);
      return problem;
    }
    if (probe && !reader) reader = std::move(line);
  }
  shared_.first.want_look();
  if (!reader) return problem;
  return reader;
}

// Does the answer say that another node has the slot, or is about to have it? Then nothing was
// done.
bool RedisMetadataStore::is_elsewhere(const Answer& answer) const {
  if (!shared_.first.has_slots() || !answer || answer->type != REDIS_REPLY_ERROR) return false;
  shared_.first.want_look();
  const std::string_view text = text_of(*answer);
  return redirect_of(text, {}).has_value() || text.starts_with("TRYAGAIN") ||
         text.starts_with("CLUSTERDOWN");
}

Answer RedisMetadataStore::call(BlockingConnection& line, const Script& script,
                                std::span<const std::string_view> arguments) const {
  std::vector<std::string_view> words{"EVALSHA",   script.sha,    "3",
                                      keys_.texts, keys_.version, keys_.changes};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Answer answer = line.ask(words);
  if (!answer || !is_error(answer) || !text_of(*answer).starts_with("NOSCRIPT")) return answer;
  words[0] = "EVAL";
  words[1] = script.text;
  return line.ask(words);
}

// The version that all texts have at least. `order`: if not null, it is held while each page is
// fetched and visited.
base::Result<std::string> RedisMetadataStore::read_all(
    BlockingConnection& line, std::mutex* order,
    const std::function<void(std::span<const Change> page)>& visit) {
  // Read first, so that changes during the pass are fetched again.
  const Answer first = line.ask({"GET", keys_.version});
  if (is_error(first)) return problem_of(first, line);
  std::string version(text_of(*first));
  std::string cursor = "0";
  do {
    std::unique_lock<std::mutex> held;
    if (order != nullptr) {
      if (!rest(let_others)) return stops();
      held = std::unique_lock(*order);
    }
    const Answer answer = line.ask({"HSCAN", keys_.texts, cursor, "COUNT", scanned_at_once});
    if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2)
      return problem_of(answer, line);
    cursor = text_of(*answer->element[0]);
    const redisReply& all = *answer->element[1];
    std::vector<Change> page;
    for (size_t i = 0; i + 1 < all.elements; i += 2)
      page.push_back(
          {std::string(text_of(*all.element[i])), std::string(text_of(*all.element[i + 1]))});
    visit(page);
  } while (cursor != "0" && !cursor.empty());
  return version;
}

base::Done RedisMetadataStore::read(
    const std::function<void(std::string_view name, std::string_view text)>& visit) {
  const auto visit_page = [&](std::span<const Change> page) {
    // A pass may return a text twice.
    for (const Change& one : page) {
      names_.insert(one.name);
      visit(one.name, *one.text);
    }
  };
  const auto version = [&]() -> base::Result<std::string> {
    auto line = connect(nullptr);
    if (!line) return std::move(line).problem();
    return read_all(**line, nullptr, visit_page);
  }();
  if (version) {
    position_ = *version;
    known_us_ = now_us();
    return {};
  }
  const std::string& why = version.problem().text;
  if (is_foreign(why))
    return base::Problem{"what Redis has under `" + base::printable(keys_.texts, 256) +
                         "` or beside it is not this server's: " + why +
                         "; delete it, or choose another store.redis.key_prefix"};
  shared_.tell(shared_.first, false,
               "cannot be asked for what is kept there, as overrides are: " + why +
                   "; they come into force as soon as it can");
  return {};
}

store::MetadataStore::WriteResult RedisMetadataStore::write(std::span<const Change> changes) {
  if (changes.empty()) return {};
  const std::string listed = std::to_string(base::bounds::redis_kept_changes);
  std::vector<std::string_view> words{listed};
  for (const Change& change : changes) {
    const bool sets = change.text.has_value(), tests = change.only_if.has_value();
    words.emplace_back(sets ? (tests ? "+?" : "+") : (tests ? "-?" : "-"));
    words.emplace_back(change.name);
    words.emplace_back(sets ? std::string_view(*change.text) : std::string_view());
    words.emplace_back(tests ? std::string_view(*change.only_if) : std::string_view());
  }
  // While the slot moves to another node nothing is done, so the call is repeated.
  const auto due = steady_clock::now() + microseconds(shared_.options.patience.us);
  auto line = connect(nullptr);
  Answer answer;
  for (;;) {
    if (line) answer = call(**line, write_, words);
    const bool again = shared_.first.has_slots() && (!line || is_elsewhere(answer));
    if (!again || steady_clock::now() >= due) break;
    std::this_thread::sleep_for(let_others);
    line = connect(nullptr);
  }
  if (!line) return {Written::no, std::move(line).problem()};
  if (answer && is_error(answer))
    return {Written::no, problem_of(answer, **line).within("Redis refuses it")};
  // Recorded so that a pass looks for them if Redis loses them before the next look.
  for (const Change& change : changes)
    if (change.text) names_.insert(change.name);
  if (answer) return {};
  return {Written::maybe,
          {(*line)->problem() + "; if it was, it is in force as soon as it is seen there"}};
}

void RedisMetadataStore::watch(std::shared_ptr<Watcher> watcher) {
  watcher_ = std::move(watcher);
  thread_ = std::thread([this] { run(); });
}

int64_t RedisMetadataStore::now_us() {
  return std::chrono::duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

std::optional<microseconds> RedisMetadataStore::age() const {
  const int64_t known_us = known_us_.load(std::memory_order_relaxed);
  if (known_us == 0) return std::nullopt;
  return microseconds(now_us() - known_us);
}

std::string RedisMetadataStore::zones_elsewhere() const {
  const std::lock_guard lock(zones_mutex_);
  return steady_clock::now() - zones_seen_ < zones_shown ? zones_elsewhere_ : std::string();
}

// Looks which version of the data was told last, and tells this server's: with one key each server
// sees now and then what each other has. If Redis does not take it, nothing is told.
void RedisMetadataStore::tell_zones(BlockingConnection& line) {
  if (!limit::Calendar::has_used_zones() || steady_clock::now() < zones_due_) return;
  zones_due_ = steady_clock::now() + zones_told_every +
               microseconds(static_cast<int64_t>(random_()) % zones_told_every.count());
  const std::string version = limit::Calendar::zone_data_version();
  const Answer last = line.ask({"GET", keys_.zones});
  if (!last || is_error(last)) return;
  const std::string_view other = text_of(*last);
  if (!other.empty() && other != version) {
    const std::lock_guard lock(zones_mutex_);
    zones_elsewhere_ = base::printable(other, 64);
    zones_seen_ = steady_clock::now();
  }
  line.ask({"SET", keys_.zones, version, "EX", "60"});
}

// Rests for `time`. False: the thread must stop.
bool RedisMetadataStore::rest(microseconds time) {
  std::unique_lock lock(mutex_);
  return !stop_.wait_for(lock, time, [this] { return stopping_.load(); });
}

void RedisMetadataStore::run() {
  ::pthread_setname_np(::pthread_self(), "sluice-kept");
  std::unique_ptr<BlockingConnection> line;
  microseconds pause{0};
  std::string told;
  while (!stopping_) {
    const base::Result<Looked> looked = look(line);
    if (looked && *looked == Looked::more) {
      if (!rest(let_others)) return;
      continue;
    }
    if (looked) {
      known_us_ = now_us();
      pause = microseconds(0);
      told.clear();
      tell_zones(*line);
      if (!rest(look_every)) return;
      continue;
    }
    if (stopping_) return;
    line.reset();
    const std::string& problem = looked.problem().text;
    if (std::exchange(told, problem) != problem)
      shared_.tell(
          shared_.first, false,
          "cannot be asked for what other servers keep there: " + problem + "; trying again");
    pause = std::clamp<microseconds>(2 * pause, pause_min, pause_max);
    // Half of the pause, plus a random time up to the other half.
    if (!rest(pause / 2 + microseconds(static_cast<int64_t>(random_()) % (pause.count() / 2))))
      return;
  }
}

// `line`: null: it is connected first.
base::Result<RedisMetadataStore::Looked> RedisMetadataStore::look(
    std::unique_ptr<BlockingConnection>& line) {
  if (!line) {
    auto opened = connect(&stopping_);
    if (!opened) return std::move(opened).problem();
    line = *std::move(opened);
  }
  const std::string most = std::to_string(told_at_once);
  const std::string_view arguments[] = {position_, most};
  std::unique_lock held(watcher_->order);
  const Answer answer = call(*line, fetch_, arguments);
  if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements == 0)
    return problem_of(answer, *line);
  if (answer->elements == 1) return Looked::done;
  if (answer->elements == 2) {
    held.unlock();
    if (base::Done done = notify_all(*line); !done) return std::move(done).problem();
    return Looked::more;
  }
  std::vector<Change> changes;
  for (size_t i = 1; i + 1 < answer->elements; i += 2) {
    Change& change = changes.emplace_back();
    change.name = text_of(*answer->element[i]);
    const redisReply& text = *answer->element[i + 1];
    if (text.type == REDIS_REPLY_STRING) change.text = text_of(text);
    if (change.text)
      names_.insert(change.name);
    else
      names_.erase(change.name);
  }
  position_ = text_of(*answer->element[0]);
  watcher_->changed(changes);
  return Looked::more;
}

// Delivers all stored texts, and the removal of those that are gone.
base::Done RedisMetadataStore::notify_all(BlockingConnection& line) {
  NameSet seen;
  auto version = read_all(line, &watcher_->order, [&](std::span<const Change> page) {
    for (const Change& one : page) {
      seen.insert(one.name);
      names_.insert(one.name);
    }
    if (!page.empty()) watcher_->changed(page);
  });
  if (!version) return std::move(version).problem();
  if (base::Done done = notify_unseen(line, seen); !done) return done;
  position_ = *std::move(version);
  return {};
}

// Delivers what has become of texts that were known and that the pass did not find. They are read
// again, as this server may have set them again meanwhile.
base::Done RedisMetadataStore::notify_unseen(BlockingConnection& line, const NameSet& seen) {
  std::vector<std::string> names;
  {
    const std::lock_guard held(watcher_->order);
    names_.each([&](std::string_view name) {
      if (!seen.contains(name)) names.emplace_back(name);
    });
  }
  for (size_t at = 0; at < names.size(); at += told_at_once) {
    const auto some = std::span(names).subspan(at, std::min(told_at_once, names.size() - at));
    std::vector<std::string_view> words{"HMGET", keys_.texts};
    words.insert(words.end(), some.begin(), some.end());
    if (!rest(let_others)) return stops();
    const std::lock_guard held(watcher_->order);
    const Answer answer = line.ask(words);
    if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != some.size())
      return problem_of(answer, line);
    std::vector<Change> changes;
    for (size_t i = 0; i < some.size(); ++i) {
      Change& change = changes.emplace_back();
      change.name = some[i];
      const redisReply& text = *answer->element[i];
      if (text.type == REDIS_REPLY_STRING)
        change.text = text_of(text);
      else
        names_.erase(some[i]);
    }
    watcher_->changed(changes);
  }
  return {};
}

}  // namespace sluice::redis
