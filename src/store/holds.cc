#include "store/holds.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <queue>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "request/charge.h"

namespace sluice::store {

using request::Charge;
using request::HeldCharge;
using request::HeldPart;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::HoldTerms;
using request::Verb;

namespace {

constexpr int64_t never_us = INT64_MAX;
// When a hold whose end the store could not settle is tried again.
constexpr base::Duration retry_after = base::milliseconds(100);
constexpr base::Duration look_again = base::milliseconds(10);
// The least that the bytes of all records are bounded by.
constexpr size_t bytes_min = 16 << 20;

// `end` of a length that begins now.
int64_t later_us(base::Time now, base::Duration length) {
  return now.us > never_us - length.us ? never_us : now.us + length.us;
}

// Valid until the thread's next call.
const std::string& name_of(std::string_view user, std::string_view id) {
  thread_local std::string name;
  name.assign(user).append(1, '\0').append(id);
  return name;
}
uint64_t digest_of(std::string_view rule, const limit::Overdrafts* overdrafts) {
  const uint64_t its = base::digest(rule);
  if (overdrafts == nullptr || !overdrafts->has_any()) return its;
  const std::span<const int64_t> most(overdrafts->most.data(), overdrafts->count);
  return its ^ base::digest({reinterpret_cast<const char*>(most.data()), most.size_bytes()});
}

std::string_view user_in(std::string_view name) {
  return name.substr(0, name.find('\0'));
}
std::string_view id_in(std::string_view name) {
  return name.substr(name.find('\0') + 1);
}

}  // namespace

// What the counters of many holds have in common. It lives as long as a reference to it, and until
// `sources_` is swept.
struct Holds::Source {
  request::SpaceRef space;
  std::string rule;
  std::vector<limit::Limit> limits;
  std::optional<limit::Overdrafts> overdrafts;  // none: no limit has one
  // Of a rule's list, so that it stays known. Lists that came with requests are not kept for holds:
  // these are as many as clients like.
  request::LimitsRef list;
  mutable std::atomic<size_t> refs{0};  // grows from 0 with the mutex of `sources_`
};

struct Holds::Sources {
  struct Key {
    uint32_t space, space_serial, list, list_serial;
    uint64_t rule;  // a digest, of its overdrafts as well
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    size_t operator()(const Key& key) const {
      return key.rule ^ (uint64_t{key.space} << 32 | key.list) * 0x9E3779B97F4A7C15u;
    }
  };

  std::mutex mutex;
  std::unordered_map<Key, std::unique_ptr<const Source>, HashKey> all;
  size_t swept_at = 64;  // as many, and those without references go
};

class Holds::SourceRef {
 public:
  SourceRef() = default;
  explicit SourceRef(const Source* its) : its_(its) {
    if (its_ != nullptr) its_->refs.fetch_add(1);
  }
  SourceRef(const SourceRef& other) : SourceRef(other.its_) {}
  SourceRef(SourceRef&& other) noexcept : its_(std::exchange(other.its_, nullptr)) {}
  SourceRef& operator=(SourceRef other) noexcept {
    std::swap(its_, other.its_);
    return *this;
  }
  ~SourceRef() {
    if (its_ != nullptr) its_->refs.fetch_sub(1);
  }
  // Takes over a reference that was counted before, or gives its own away.
  static SourceRef adopt(const Source* its) {
    SourceRef ref;
    ref.its_ = its;
    return ref;
  }
  const Source* give() { return std::exchange(its_, nullptr); }
  const Source* get() const { return its_; }
  const Source* operator->() const { return its_; }

 private:
  const Source* its_ = nullptr;
};

struct Holds::Counter {
  struct Part : HeldPart {
    SourceRef its_source;  // of `then`; none: that of the counter
  };
  SourceRef source;
  std::string key;
  uint64_t subjects = 0;
  bool shadow = false;      // of a rule in shadow: settled by itself
  std::vector<Part> parts;  // the earliest first
  int64_t final_units = 0;  // of parts that were too many: they count as used

  // Adds what was taken of the counter, under the limits of its source.
  void take(const HeldPart& its) {
    Part& part = parts.emplace_back();
    static_cast<HeldPart&>(part) = its;
    part.then = source->limits;
  }
  int64_t units() const {
    return std::accumulate(parts.begin(), parts.end(), final_units,
                           [](int64_t sum, const Part& part) { return sum + part.units; });
  }
  // What it comes to of the units of each subject.
  int64_t share_of(std::span<const int64_t> units) const {
    int64_t sum = 0;
    for (size_t i = 0; i < units.size(); ++i)
      if ((subjects >> i & 1) != 0) sum += units[i];
    return sum;
  }
};

struct Holds::Record {
  std::string name;
  State state = State::held;
  HoldTerms terms;
  uint64_t content = 0;
  std::string holder;
  base::Time began{}, end{};  // end: of the hold; after that, when it is forgotten
  base::Duration ttl{};
  std::vector<Counter> counters;
  std::vector<int64_t> reserved, used;  // of each subject
  // Of the commit, so that it is answered again: what went back and was charged, and the limit that
  // it showed; its rule is empty if it has none.
  int64_t returned = 0, charged = 0, shown_limit = 0, shown_remaining = 0;
  std::string shown_rule;
  bool has_shown = false;
  bool late = false;
  bool is_counted = false;  // among those that are remembered
  bool is_place = false;    // HoldCall::is_place
  uint64_t owner = 0;       // HoldCall::owner

  // Of one that is not held any more: what nobody asks of it.
  void forget_terms() {
    terms.ttl_max = HoldTerms().ttl_max;
    content = 0;
    holder.clear();
    began = {};
    ttl = {};
  }
  // Has it places of an enforced rule or of one in shadow?
  bool has_places() const {
    return std::ranges::any_of(counters, [](const Counter& counter) {
      return std::ranges::any_of(counter.source->limits, limit::has_places);
    });
  }
};

// A record as it is kept: there may be a million of them, so in few bytes. Numbers have 7 bits a
// byte, the lowest first; those that may be below 0 are folded (zigzag).
struct Holds::Packed {
  // Writes where there is room for the most that a record may need.
  class Writer {
   public:
    static constexpr size_t number_bytes_max = 10;
    explicit Writer(char* at) : at_(at) {}
    void number(uint64_t n) {
      for (; n > 127; n >>= 7) *at_++ = static_cast<char>(n | 128);
      *at_++ = static_cast<char>(n);
    }
    void folded(int64_t n) {
      number(n < 0 ? ~(static_cast<uint64_t>(n) << 1) : static_cast<uint64_t>(n) << 1);
    }
    void text(std::string_view t) {
      number(t.size());
      at_ = std::copy(t.begin(), t.end(), at_);
    }
    void pointer(const Source* its) {
      at_ = std::copy_n(reinterpret_cast<const char*>(&its), sizeof its, at_);
    }
    char* at() const { return at_; }

   private:
    char* at_;
  };
  class Reader {
   public:
    // end: null: the bytes are a record's, which was written here.
    explicit Reader(const char* at, const char* end = nullptr) : at_(at), end_(end) {}
    // Was all there that was read?
    bool is_sound() const { return sound_; }
    void fail() { sound_ = false; }
    bool is_at_end() const { return at_ == end_; }
    uint64_t number() {
      uint64_t n = 0;
      for (int shift = 0; shift < 64; shift += 7) {
        if (at_ == end_) break;
        const auto byte = static_cast<unsigned char>(*at_++);
        n |= static_cast<uint64_t>(byte & 127) << shift;
        if (byte < 128) return n;
      }
      sound_ = false;
      return 0;
    }
    int64_t folded() {
      const uint64_t n = number();
      return static_cast<int64_t>(n >> 1 ^ (~(n & 1) + 1));
    }
    // Of things that follow, which have a byte each at least.
    size_t count() {
      const uint64_t n = number();
      if (end_ == nullptr || n <= static_cast<uint64_t>(end_ - at_)) return n;
      sound_ = false;
      return 0;
    }
    std::string_view text() {
      const size_t size = count();
      return {std::exchange(at_, at_ + size), size};
    }
    const Source* pointer() {
      const Source* its;
      std::copy_n(at_, sizeof its, reinterpret_cast<char*>(&its));
      at_ += sizeof its;
      return its;
    }

   private:
    const char* at_;
    const char* const end_;
    bool sound_ = true;
  };

  static std::string_view name_of(const char* bytes) { return Reader(bytes).text(); }
  // Is it a record that was remembered until then?
  static bool is_over(const char* bytes, base::Time now) {
    Reader from(bytes);
    from.text();
    const auto state = static_cast<State>(from.number() >> 6 & 3);
    return state != State::held && from.folded() <= now.us;
  }
  // `put(to, source)` writes each source, in at most number_bytes_max bytes; `get(from)` reads it.
  // `brief`: without what only a hold needs (Record::forget_terms). The bytes are valid until the
  // thread's next call.
  template <class Put>
  static std::string_view pack(Record& record, bool brief, Put&& put);
  template <class Get>
  static void unpack(Reader& from, Record& record, Get&& get);
  // With pointers to sources, which take over the references of the record, or give them back.
  static std::string_view pack(Record& record) {
    return pack(record, record.state != State::held,
                [](Writer& to, SourceRef& source) { to.pointer(source.give()); });
  }
  static void unpack(const char* bytes, Record& record) {
    Reader its(bytes);
    unpack(its, record, [](Reader& from) { return SourceRef::adopt(from.pointer()); });
  }
  static size_t bytes_max(const Record& record);
};

size_t Holds::Packed::bytes_max(const Record& record) {
  size_t numbers = 21 + record.reserved.size() + record.used.size();
  size_t others = record.name.size() + record.holder.size() + record.shown_rule.size();
  for (const Counter& counter : record.counters) {
    numbers += 9;
    others += Writer::number_bytes_max + counter.key.size();
    for (const Counter::Part& part : counter.parts) {
      numbers += 8 + 2 * part.then.size();
      others += Writer::number_bytes_max;
    }
  }
  return numbers * Writer::number_bytes_max + others;
}

template <class Put>
std::string_view Holds::Packed::pack(Record& record, bool brief, Put&& put) {
  thread_local std::vector<char> room;
  if (const size_t most = bytes_max(record); room.size() < most) room.resize(most);
  Writer to(room.data());
  to.text(record.name);
  to.number(uint64_t{brief} << 8 | static_cast<uint64_t>(record.state) << 6 |
            uint64_t{record.owner != 0} << 5 | uint64_t{record.is_place} << 4 |
            uint64_t{record.is_counted} << 3 | uint64_t{record.terms.keeps} << 2 |
            uint64_t{record.terms.ignores_late} << 1 | uint64_t{record.late});
  to.folded(record.end.us);
  if (record.owner != 0) to.number(record.owner);
  if (!brief) {
    to.folded(record.terms.ttl_max.us);
    to.number(record.content);
    to.text(record.holder);
    to.folded(record.began.us);
    to.folded(record.ttl.us);
  }
  to.number(record.reserved.size());
  for (const int64_t n : record.reserved) to.folded(n);
  to.number(record.used.size());
  for (const int64_t n : record.used) to.folded(n);
  to.folded(record.returned);
  to.folded(record.charged);
  to.number(record.has_shown ? 1 : 0);
  if (record.has_shown) {
    to.folded(record.shown_limit);
    to.folded(record.shown_remaining);
    to.text(record.shown_rule);
  }
  to.number(record.counters.size());
  for (Counter& counter : record.counters) {
    put(to, counter.source);
    to.text(counter.key);
    to.number(counter.shadow ? 1 : 0);
    to.number(counter.subjects);
    to.folded(counter.final_units);
    to.number(counter.parts.size());
    for (Counter::Part& part : counter.parts) {
      // Mostly the limits have not changed since.
      const bool is_same = part.its_source.get() == nullptr;
      const size_t limits = part.then.size();
      to.number(is_same ? 1 : 0);
      if (!is_same) put(to, part.its_source);
      to.folded(part.taken.us);
      to.folded(part.units);
      to.number(part.given.units);
      to.number(part.given.puts);
      to.number(part.given.resets);
      for (size_t i = 0; i < limits; ++i) {
        to.folded(part.marks[i].fresh_at_us);
        to.folded(part.marks[i].units);
      }
    }
  }
  return {room.data(), static_cast<size_t>(to.at() - room.data())};
}

template <class Get>
void Holds::Packed::unpack(Reader& from, Record& record, Get&& get) {
  record.name = from.text();
  const uint64_t flags = from.number();
  record.state = static_cast<State>(flags >> 6 & 3);
  record.is_place = (flags & 16) != 0;
  record.is_counted = (flags & 8) != 0;
  record.terms.keeps = (flags & 4) != 0;
  record.terms.ignores_late = (flags & 2) != 0;
  record.late = (flags & 1) != 0;
  record.end = {from.folded()};
  record.owner = (flags & 32) != 0 ? from.number() : 0;
  if (flags >> 8 != 0) {
    record.forget_terms();
  } else {
    record.terms.ttl_max = {from.folded()};
    record.content = from.number();
    record.holder = from.text();
    record.began = {from.folded()};
    record.ttl = {from.folded()};
  }
  record.reserved.resize(from.count());
  for (int64_t& n : record.reserved) n = from.folded();
  record.used.resize(from.count());
  for (int64_t& n : record.used) n = from.folded();
  record.returned = from.folded();
  record.charged = from.folded();
  record.has_shown = from.number() == 1;
  if (record.has_shown) {
    record.shown_limit = from.folded();
    record.shown_remaining = from.folded();
    record.shown_rule = from.text();
  }
  record.counters.resize(from.count());
  for (Counter& counter : record.counters) {
    counter.source = get(from);
    if (counter.source.get() == nullptr) {
      record.counters.clear();
      return from.fail();
    }
    counter.key = from.text();
    counter.shadow = from.number() == 1;
    counter.subjects = from.number();
    counter.final_units = from.folded();
    counter.parts.resize(from.count());
    for (Counter::Part& part : counter.parts) {
      part.its_source = from.number() == 1 ? SourceRef() : get(from);
      part.then =
          part.its_source.get() == nullptr ? counter.source->limits : part.its_source->limits;
      part.taken = {from.folded()};
      part.units = from.folded();
      part.given.units = from.number();
      part.given.puts = static_cast<uint32_t>(from.number());
      part.given.resets = static_cast<uint32_t>(from.number());
      for (size_t i = 0; i < part.then.size(); ++i) {
        part.marks[i].fresh_at_us = from.folded();
        part.marks[i].units = from.folded();
      }
    }
  }
}

// Records by name, in an open table of their places. With the mutex.
struct Holds::Shard {
  static constexpr uint32_t none = UINT32_MAX;
  // Of the table: a record's place, and a part of its name's hash, which says where the record
  // belongs and mostly that another one is not meant, without a look at it.
  struct Slot {
    uint32_t place = none, hash = 0;
  };
  struct Place {
    std::unique_ptr<char[]> bytes;  // null: it is free
    int64_t due_us = never_us;      // when it is looked at: at its end or earlier
    uint32_t size = 0;              // of `bytes`
    uint32_t generation = 0;        // how many were here before
  };
  struct Due {
    int64_t at_us;
    uint32_t place, generation;
    bool operator<(const Due& other) const { return at_us > other.at_us; }
  };

  uint32_t find(std::string_view name) const {
    if (table.empty()) return none;
    const uint32_t its = hash_of(name);
    for (size_t at = start_of(its);; at = next(at)) {
      const Slot slot = table[at];
      if (slot.place == none) return none;
      if (slot.hash == its && Packed::name_of(places[slot.place].bytes.get()) == name)
        return slot.place;
    }
  }
  // Replaces what the place has, whose references `record` has, if it had any.
  void save(uint32_t place, Record& record) {
    const std::string_view packed = Packed::pack(record);
    auto bytes = std::make_unique_for_overwrite<char[]>(packed.size());
    std::copy(packed.begin(), packed.end(), bytes.get());
    places[place].bytes = std::move(bytes);
    places[place].size = static_cast<uint32_t>(packed.size());
  }
  uint32_t insert(Record& record) {
    if ((count + 1) * 4 > table.size() * 3) grow();
    uint32_t place;
    if (free.empty()) {
      place = static_cast<uint32_t>(places.size());
      places.emplace_back();
    } else {
      place = free.back();
      free.pop_back();
    }
    save(place, record);
    put({place, hash_of(record.name)});
    ++count;
    return place;
  }
  void drop_invalid() {
    std::vector<Due> valid;
    for (uint32_t place = 0; place < places.size(); ++place)
      if (places[place].bytes != nullptr && places[place].due_us != never_us)
        valid.push_back({places[place].due_us, place, places[place].generation});
    due = std::priority_queue<Due>({}, std::move(valid));
  }
  // The record's references must have gone.
  void erase(uint32_t place) {
    size_t at = start_of(hash_of(Packed::name_of(places[place].bytes.get())));
    while (table[at].place != place) at = next(at);
    // Those behind it move up, so that no search ends early.
    for (size_t hole = at;;) {
      at = next(at);
      if (table[at].place == none) {
        table[hole] = {};
        break;
      }
      const size_t start = start_of(table[at].hash);
      const bool stays = hole <= at ? hole < start && start <= at : hole < start || start <= at;
      if (stays) continue;
      table[hole] = table[at];
      hole = at;
    }
    places[place].bytes.reset();
    places[place].size = 0;
    places[place].due_us = never_us;
    ++places[place].generation;
    free.push_back(place);
    --count;
  }
  // False: another one has taken its place.
  bool is_valid(const Due& one) const {
    const Place& place = places[one.place];
    return place.generation == one.generation && place.due_us == one.at_us;
  }

  mutable std::mutex mutex;
  base::Hash hash;
  std::vector<Place> places;
  std::vector<uint32_t> free;
  std::vector<Slot> table;  // its size is a power of 2
  size_t count = 0;
  std::priority_queue<Due> due;  // one for each record, and others that are not valid any more
  std::atomic<int64_t> next_us{never_us};  // of `due`

 private:
  uint32_t hash_of(std::string_view name) const { return static_cast<uint32_t>(hash(0, name)); }
  size_t start_of(uint32_t its_hash) const { return its_hash & (table.size() - 1); }
  size_t next(size_t at) const { return (at + 1) & (table.size() - 1); }
  void put(Slot slot) {
    size_t at = start_of(slot.hash);
    while (table[at].place != none) at = next(at);
    table[at] = slot;
  }
  void grow() {
    std::vector<Slot> smaller(std::max<size_t>(16, table.size() * 2));
    smaller.swap(table);
    for (const Slot slot : smaller)
      if (slot.place != none) put(slot);
  }
};

// A record while it is looked at and changed, with the mutex of its shard. One for each thread at a
// time, so that its memory is used again. What is not saved is as it was.
class Holds::Loaded {
 public:
  Loaded(Shard& shard, uint32_t place) : shard_(shard), place_(place) {
    SLUICE_CHECK(!std::exchange(is_used(), true));
    try {
      load();
    } catch (...) {  // no memory
      let_go();
      throw;
    }
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { let_go(); }
  Record& operator*() const { return record(); }
  Record* operator->() const { return &record(); }
  // Afterwards its counters must not be used, until `load`.
  void save() { shard_.save(place_, record()); }
  void load() { Packed::unpack(shard_.places[place_].bytes.get(), record()); }
  // Of a record without counters.
  void erase() { shard_.erase(place_); }

 private:
  // The references stay those of the bytes.
  static void let_go() {
    for (Counter& counter : record().counters) {
      counter.source.give();
      for (Counter::Part& part : counter.parts) part.its_source.give();
    }
    is_used() = false;
  }
  static Record& record() {
    thread_local Record its;
    return its;
  }
  static bool& is_used() {
    thread_local bool is = false;
    return is;
  }
  Shard& shard_;
  const uint32_t place_;
};

// Charges of one hold: those of enforced rules in one group, and each other in one of its own.
struct Holds::Settling {
  // For charges of so many counters, with so many parts in all. Its memory is the thread's.
  static Settling& begin(size_t counters, size_t all_parts) {
    thread_local Settling its;
    its.charges.clear();
    its.held.clear();
    its.parts.clear();
    its.back.clear();
    its.lists.clear();
    its.sources.clear();
    its.groups.clear();
    its.ttl = {};
    its.moves_to = {};
    // So that none moves.
    its.charges.reserve(counters);
    its.held.reserve(counters);
    its.parts.reserve(all_parts);
    its.back.reserve(all_parts);
    its.decisions.resize(counters * limit::slots_max);
    return its;
  }
  static Settling& begin(const Record& record) {
    size_t all_parts = 0;
    for (const Counter& counter : record.counters) all_parts += counter.parts.size();
    return begin(record.counters.size(), all_parts);
  }

  base::Duration ttl{};   // of reserves that are added
  base::Time moves_to{};  // of settles

  // The counter's charge with that verb. settle: the units that were not used go back, the latest
  // first.
  void add(request::Spaces& spaces, const Counter& counter,
           std::span<const Counter::Part> its_parts, Verb verb, int64_t cost, int64_t used) {
    const Source& source = *counter.source.get();
    HeldCharge& its = held.emplace_back();
    its.adopts = true;
    its.ttl = ttl;
    its.moves_to = moves_to;
    Charge& charge = charges.emplace_back();
    charge.space = source.space.get();
    charge.key = counter.key;
    charge.verb = verb;
    charge.cost = cost;
    charge.limits = source.limits;
    charge.overdrafts = source.overdrafts ? &*source.overdrafts : nullptr;
    charge.limits_id =
        source.list ? source.list.id() : lists.emplace_back(spaces.hold_limits(source.limits)).id();
    charge.decision_first = static_cast<uint32_t>((charges.size() - 1) * limit::slots_max);
    charge.held = &its;
    sources.push_back(&source);
    // Those of enforced rules are one group; they come first.
    if (groups.empty() || counter.shadow || groups.back().may_fail) {
      request::Group& group = groups.emplace_back();
      group.charge_first = static_cast<uint32_t>(charges.size() - 1);
      group.may_fail = counter.shadow;
      group.holds = true;
    }
    ++groups.back().charge_count;
    if (verb != Verb::settle) return;
    its.ends = moves_to.us == 0;
    const size_t first = parts.size();
    // What was used fills the earliest parts first.
    for (const Counter::Part& part : its_parts) {
      parts.push_back(part);
      const int64_t filled = std::min(std::max<int64_t>(used, 0), part.units);
      back.push_back(part.units - filled);
      used -= filled;
    }
    its.parts = std::span(parts).subspan(first);
    its.back = std::span(back).subspan(first);
  }
  void add_settled(request::Spaces& spaces, const Counter& counter, int64_t used) {
    add(spaces, counter, counter.parts, Verb::settle, std::max<int64_t>(used - counter.units(), 0),
        used - counter.final_units);
  }

  std::vector<Charge> charges;
  std::vector<HeldCharge> held;
  std::vector<HeldPart> parts;
  std::vector<int64_t> back;
  std::vector<request::LimitsRef> lists;  // that no source keeps
  std::vector<limit::Decision> decisions;
  std::vector<const Source*> sources;
  std::vector<request::Group> groups;
};

Holds::Holds(Store& store, request::Spaces& spaces, const Options& options)
    : store_(store),
      notes_(store.notes()),
      spaces_(spaces),
      options_(options),
      shards_(std::make_unique<std::array<Shard, shard_count>>()),
      sources_(std::make_unique<Sources>()) {}
Holds::~Holds() = default;

Holds::Shard& Holds::shard_of(std::string_view name) const {
  return (*shards_)[hash_(0, name) >> 32 & (shard_count - 1)];
}

// The same object for all counters of one rule. Throws std::bad_alloc.
Holds::SourceRef Holds::source_of(const Charge& charge, std::string_view rule) {
  // The charge's own limits may be those of its lease.
  return source_of(*charge.space, spaces_.limits(charge.limits_id), charge.limits_id, rule,
                   charge.overdrafts);
}

Holds::SourceRef Holds::source_of(const request::Space& space, std::span<const limit::Limit> limits,
                                  uint32_t limits_id, std::string_view rule,
                                  const limit::Overdrafts* overdrafts) {
  const Sources::Key key{space.id, space.serial, limits_id, spaces_.serial_of_limits(limits_id),
                         digest_of(rule, overdrafts)};
  const std::lock_guard lock(sources_->mutex);
  std::unique_ptr<const Source>& known = sources_->all[key];
  if (known == nullptr) {
    auto source = std::make_unique<Source>();
    source->space = spaces_.hold(space.prefix, space.suffix, space);
    source->rule = rule;
    source->limits.assign(limits.begin(), limits.end());
    if (overdrafts != nullptr) source->overdrafts = *overdrafts;
    if (space.carry != limit::CarryOver::apart) source->list = spaces_.hold_limits(limits);
    known = std::move(source);
  }
  SourceRef its(known.get());
  if (sources_->all.size() > sources_->swept_at) {
    std::erase_if(sources_->all, [](const auto& one) { return one.second->refs.load() == 0; });
    sources_->swept_at = std::max<size_t>(64, sources_->all.size() * 2);
  }
  return its;
}

// Adds what a charge has taken of the counter.
void Holds::add_part(const Charge& charge, Counter& counter) {
  Counter::Part& part = counter.parts.emplace_back();
  static_cast<HeldPart&>(part) = charge.held->part;
  SourceRef source = source_of(charge, counter.source->rule);
  part.then = source->limits;
  if (source.get() != counter.source.get()) part.its_source = std::move(source);
}

// How much of a room a user has, and the most that anybody may have.
size_t Holds::part_of(size_t most) const {
  return std::max<size_t>(most / options_.user_part, 1);
}

// Counts `n` more for the user. False: there are too many, or too many of the user.
bool Holds::take_room(Room room, std::string_view user, size_t n, size_t most) {
  if (room_of(room).fetch_add(n) + n > most) {
    room_of(room).fetch_sub(n);
    return false;
  }
  if (user.empty()) return true;
  const std::lock_guard lock(users_mutex_);
  size_t& count = users_[std::string(user)][static_cast<size_t>(room)];
  if (count + n > part_of(most)) {
    room_of(room).fetch_sub(n);
    return false;
  }
  count += n;
  return true;
}

void Holds::leave_room(Room room, std::string_view user, size_t n) {
  room_of(room).fetch_sub(n);
  if (user.empty()) return;
  const std::lock_guard lock(users_mutex_);
  const auto its = users_.find(std::string(user));
  if (its == users_.end()) return;
  its->second[static_cast<size_t>(room)] -= n;
  if (std::ranges::all_of(its->second, [](size_t count) { return count == 0; })) users_.erase(its);
}

void Holds::note_due(int64_t at_us) {
  int64_t next = next_due_us_.load();
  while (at_us < next && !next_due_us_.compare_exchange_weak(next, at_us)) continue;
}

// The record is looked at then; or before, if that is noted already.
void Holds::push_due(Shard& shard, uint32_t place, int64_t at_us) {
  if (at_us >= shard.places[place].due_us) return;
  shard.places[place].due_us = at_us;
  shard.due.push({at_us, place, shard.places[place].generation});
  if (shard.due.size() > 2 * shard.count + 64) shard.drop_invalid();
  shard.next_us.store(shard.due.top().at_us);
  note_due(at_us);
}

// It is not held any more, and remembered from now on; where too many are, it is forgotten at once.
void Holds::set_state(Record& record, State state, base::Time now) {
  const std::string_view user = user_in(record.name);
  if (record.state == State::held) {
    leave_room(Room::held, user, 1);
    if (record.is_place) places_.fetch_sub(1);
    leave_owner(record);
  }
  record.state = state;
  if (!record.is_counted) record.is_counted = take_room(Room::settled, user, 1, options_.most);
  record.end = record.is_counted ? base::Time{later_us(now, options_.remember)} : now;
}

// Keeps what has become of the record.
void Holds::save(Shard& shard, uint32_t place, Loaded& record, request::HoldNote* note) {
  const size_t was = shard.places[place].size;
  if (note) note->fill(text_of(*record));
  record.save();
  count_bytes(record->name, was, shard.places[place].size);
  push_due(shard, place, record->end.us);
}

// The bytes of a record change.
void Holds::count_bytes(std::string_view name, size_t was, size_t is) {
  const std::string_view user = user_in(name);
  if (is > was) take_room(Room::bytes, user, is - was, SIZE_MAX);
  if (is < was) leave_room(Room::bytes, user, was - is);
}

// Is there room for so many bytes more?
bool Holds::has_bytes(std::string_view user, size_t n) {
  const size_t most = std::max(options_.most * bytes_of_record, bytes_min);
  if (!take_room(Room::bytes, user, n, most)) return false;
  leave_room(Room::bytes, user, n);
  return true;
}

// ---- Answers ----

void Holds::answer_held(HoldCall& call, const Record& record, base::Time now) const {
  call.outcome = HoldOutcome::done;
  call.made_id = id_in(record.name);
  call.ends_in = {std::max<int64_t>(record.end.us - now.us, 0)};
  call.reserved = record.reserved;
}

void Holds::answer_again(HoldCall& call, const Record& record) const {
  call.outcome = HoldOutcome::done;
  call.made_id = id_in(record.name);
  call.reserved = record.reserved;
  call.used = record.used;
  call.returned = record.returned;
  call.charged = record.charged;
  call.late = record.late;
  call.repeated = true;
  call.has_decision = record.has_shown;
  if (!record.has_shown) return;
  call.decision = {true, record.shown_limit, record.shown_remaining, {}, {}};
  call.limit = {limit::Algorithm::fixed_window, record.shown_limit};
  call.rule = record.shown_rule;
}

// What the call shows is kept with the record.
void Holds::keep_shown(const HoldCall& call, Record& record) {
  record.returned = call.returned;
  record.charged = call.charged;
  record.has_shown = call.has_decision;
  record.shown_limit = call.decision.limit;
  record.shown_remaining = call.decision.remaining;
  record.shown_rule = call.rule;
}

// Why a hold that is not held any more is not changed.
HoldOutcome Holds::gone(const Record& record) const {
  return record.state == State::committed ? HoldOutcome::settled : HoldOutcome::ended;
}

// ---- Reserve ----

bool Holds::reserve(HoldCall& call, const HoldTerms& terms, const request::Batch& batch,
                    std::span<const Share> shares, std::span<const int64_t> units, base::Time now,
                    const Asker& asker) {
  return reserve(call, terms, batch, shares, units, now, asker, nullptr);
}

// A reserve whose group the store has parked: the record, without the parts that are waited for.
struct Holds::Waiting : Wait {
  Record record;
  std::vector<HeldCharge> held;  // of the charges of the batch
  // Of the counters of `record` that are waited for, the places in `held`. These counters are the
  // last ones.
  std::vector<size_t> places;
  NoteRef note;  // of the grant

  // Adds what was taken of the counters that were waited for.
  void add_parts() {
    const size_t first = record.counters.size() - places.size();
    for (size_t i = 0; i < places.size(); ++i) {
      if (held[places[i]].is_taken) record.counters[first + i].take(held[places[i]].part);
    }
  }
};

bool Holds::reserve_or_wait(HoldCall& call, const HoldTerms& terms, const request::Batch& batch,
                            std::span<const Share> shares, std::span<const int64_t> units,
                            base::Time now, const Asker& asker, std::unique_ptr<Wait>& wait) {
  return reserve(call, terms, batch, shares, units, now, asker, &wait);
}

// Answers a reserve whose id is in use, and returns true. `batch`: its charges then tell how the
// counters stand; null: they do not. With the lock of the shard.
bool Holds::answer_if_known(HoldCall& call, Shard& shard, const std::string& name,
                            const request::Batch* batch, base::Time now) {
  const uint32_t place = shard.find(name);
  if (place == Shard::none || forget_old(shard, place, now)) return false;
  Loaded record(shard, place);
  if (record->end <= now) {
    const NoteRef note = new_note(record->name);
    if (end(*record, now, note.get())) {
      save(shard, place, record, note.get());
      record.load();
    }
  }
  if (record->state != State::held) {
    call.outcome = gone(*record);
    call.used = record->used;
    return true;
  }
  if (record->content != call.content || record->is_place != call.is_place) {
    call.outcome = HoldOutcome::in_use;
    return true;
  }
  if (batch != nullptr) {
    for (Charge& charge : batch->charges) {
      charge.verb = Verb::peek;
      charge.cost = 0;
    }
    for (request::Group& group : batch->groups) group.may_wait = false;
    for (size_t done = 0; done < batch->groups.size();) {
      const Applied applied =
          store_.apply({batch->groups.subspan(done), batch->charges, batch->decisions}, now);
      if (applied.later) break;
      done += applied.settled;
    }
    // It is held, whatever its rules say now.
    for (request::Group& group : batch->groups) group.allowed = true;
  }
  answer_held(call, *record, now);
  call.repeated = true;
  count(Event::repeated, record->is_place);
  return true;
}

// Fills in all but the counters.
void Holds::describe(Record& record, const HoldCall& call, const HoldTerms& terms,
                     const std::string& name, std::span<const int64_t> units,
                     base::Time now) const {
  record.name = name;
  record.terms = terms;
  record.content = call.content;
  record.holder = call.holder;
  record.began = now;
  record.is_place = call.is_place;
  record.owner = call.owner;
  const base::Duration ttl = call.ttl.us > 0 ? call.ttl : options_.ttl;
  record.ttl = {std::min(ttl.us, terms.ttl_max.us)};
  record.end = {later_us(now, record.ttl)};
  record.reserved.assign(units.begin(), units.end());
}

// Gives back all that a record took which is not held.
void Holds::give_back(Record& record, base::Time now) {
  Settling& settling = Settling::begin(record);
  for (const Counter& counter : record.counters)
    if (!counter.parts.empty()) settling.add_settled(spaces_, counter, 0);
  HoldCall unused;
  if (!settling.groups.empty()) apply(unused, settling, now, nullptr);
  record.counters.clear();
}

bool Holds::reserve(HoldCall& call, const HoldTerms& terms, const request::Batch& batch,
                    std::span<const Share> shares, std::span<const int64_t> units, base::Time now,
                    const Asker& asker, std::unique_ptr<Wait>* wait) {
  SLUICE_CHECK(shares.size() == batch.charges.size() && units.size() <= 64);
  if (!are_known(batch.charges, now, asker)) return false;
  auto* const before = wait == nullptr ? nullptr : static_cast<Waiting*>(wait->get());
  if (before == nullptr) call.made_id = call.id.empty() ? make_id() : std::string(call.id);
  const std::string& name =
      before == nullptr ? name_of(call.user, call.made_id) : before->record.name;
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  // One that waits is looked at again once it is granted.
  if (before == nullptr && answer_if_known(call, shard, name, &batch, now)) return true;
  size_t bytes = 128 + name.size() + call.holder.size() + 10 * units.size();
  for (const Charge& charge : batch.charges)
    bytes += 96 + charge.key.size() + 20 * charge.limits.size();
  if (before == nullptr &&
      (!has_bytes(call.user, bytes) || !take_room(Room::held, call.user, 1, options_.most))) {
    call.outcome = HoldOutcome::full;
    return true;
  }
  std::unique_ptr<Waiting> waiting;
  if (wait != nullptr) waiting = std::make_unique<Waiting>();
  thread_local std::vector<HeldCharge> scratch;
  std::vector<HeldCharge>& all_held = waiting == nullptr ? scratch : waiting->held;
  all_held.clear();
  all_held.resize(batch.charges.size());
  const std::span<HeldCharge> held = all_held;
  const base::Duration ttl = std::min(call.ttl.us > 0 ? call.ttl : options_.ttl, terms.ttl_max);
  // The store gives charges of places limits that lie in `held`.
  thread_local std::vector<std::span<const limit::Limit>> limits;
  limits.clear();
  limits.reserve(held.size());
  for (size_t i = 0; i < held.size(); ++i) {
    held[i].ttl = ttl;
    batch.charges[i].held = &held[i];
    limits.push_back(batch.charges[i].limits);
  }
  const auto let_go = [&] {
    for (size_t i = 0; i < limits.size(); ++i) {
      batch.charges[i].held = nullptr;
      batch.charges[i].limits = limits[i];
    }
    for (request::Group& group : batch.groups) group.note = nullptr;
  };
  NoteRef note = new_note(name);
  if (note) note->set_first();
  for (request::Group& group : batch.groups) {
    group.holds = true;
    if (!group.may_fail) group.note = note.get();
  }
  request::Group* enforced = nullptr;
  size_t done = 0;
  bool later = false;
  while (done < batch.groups.size()) {
    const Applied applied =
        store_.apply({batch.groups.subspan(done), batch.charges, batch.decisions}, now,
                     wait == nullptr ? nullptr : asker.completions, asker.pin);
    done += applied.settled;
    later = applied.later;
    if (later) break;
  }
  // It stays parked.
  if (before != nullptr && later) {
    let_go();
    return false;
  }
  bool decided = done == batch.groups.size();
  for (request::Group& group : batch.groups) {
    if (group.may_fail) continue;
    enforced = &group;
    decided &= group.error == request::Error::none;
  }
  if (before != nullptr && enforced != nullptr && enforced->answered) {
    let_go();
    call.outcome = HoldOutcome::waiting;
    return true;
  }
  const bool parked = enforced != nullptr && enforced->parked;
  bool allowed = decided && (enforced == nullptr || enforced->allowed);
  thread_local Record used_again;
  Record& record = waiting == nullptr ? used_again : waiting->record;
  record.state = State::held;
  record.counters.clear();
  record.used.clear();
  record.returned = record.charged = 0;
  record.has_shown = record.late = record.is_counted = false;
  if (allowed || parked) describe(record, call, terms, name, units, now);
  bool untaken = false;
  const auto add = [&](uint32_t i, bool shadow) -> Counter& {
    Counter& counter = record.counters.emplace_back();
    counter.source = source_of(batch.charges[i], shares[i].rule);
    counter.key = batch.charges[i].key;
    counter.subjects = shares[i].subjects;
    counter.shadow = shadow;
    return counter;
  };
  if (before != nullptr)
    for (Counter& counter : before->record.counters)
      if (counter.shadow) record.counters.push_back(std::move(counter));
  // Those in shadow come first where the others wait, so that these are the last.
  for (const bool shadow : {parked, !parked})
    for (const request::Group& group : batch.groups) {
      const bool waits = parked && !group.may_fail;
      if (group.may_fail != shadow || (!group.allowed && !waits) ||
          group.error != request::Error::none)
        continue;
      for (uint32_t i = group.charge_first; i < group.charge_first + group.charge_count; ++i) {
        const Charge& charge = batch.charges[i];
        if (!limit::is_counted(charge.limits) || charge.verb != Verb::reserve) continue;
        if (waits) {
          add(i, false);
          waiting->places.push_back(i);
          continue;
        }
        // The rules allow it although the store cannot decide.
        untaken |= !held[i].is_taken;
        if (held[i].is_taken) add(i, shadow).take(held[i].part);
      }
    }
  let_go();
  if (parked) {
    waiting->note = std::move(note);
    note_waiting(*waiting, now);
    *wait = std::move(waiting);
    call.outcome = HoldOutcome::waiting;
    return true;
  }
  // Without an enforced rule that counts, nothing was noted yet.
  if (allowed && !untaken && enforced == nullptr && !keep(call, note.get()))
    decided = allowed = false;
  if (!allowed || untaken) {
    // Rules in shadow took their units alone: they hold nothing without the enforced ones.
    give_back(record, now);
    leave_room(Room::held, call.user, 1);
    call.made_id.clear();
    call.outcome = !decided  ? HoldOutcome::failed
                   : allowed ? HoldOutcome::not_held
                             : HoldOutcome::refused;
    if (call.outcome == HoldOutcome::refused) count(Event::refused, call.is_place);
  } else {
    insert(shard, record, note.get());
    count(Event::held, record.is_place);
    answer_held(call, record, now);
  }
  if (wait != nullptr) wait->reset();
  return true;
}

// Charges of enforced rules are settled together, so their counters come first.
void Holds::put_shadows_last(Record& record) {
  std::stable_partition(record.counters.begin(), record.counters.end(),
                        [](const Counter& counter) { return !counter.shadow; });
}

// What is kept with the grant of a reserve that waits, before it is known what was taken when: the
// parts have no marks, so that no window or bucket gets anything back after a kill that comes
// before `grant`.
void Holds::note_waiting(Waiting& waiting, base::Time now) const {
  if (!waiting.note) return;
  Record record = waiting.record;
  for (size_t i = 0; i < waiting.places.size(); ++i) {
    Counter& counter = record.counters[record.counters.size() - waiting.places.size() + i];
    Counter::Part& part = counter.parts.emplace_back();
    part.taken = now;
    part.units = counter.share_of(record.reserved);
    part.then = counter.source->limits;
  }
  put_shadows_last(record);
  waiting.note->fill(text_of(record));
}

void Holds::grant(HoldCall& call, Wait& wait, base::Time at) {
  auto& waiting = static_cast<Waiting&>(wait);
  Record& record = waiting.record;
  waiting.add_parts();
  Shard& shard = shard_of(record.name);
  const std::lock_guard lock(shard.mutex);
  if (answer_if_known(call, shard, record.name, nullptr, at)) {
    // Another reserve with this id was faster.
    give_back(record, at);
    leave_room(Room::held, user_in(record.name), 1);
    note_as_it_is(shard, record.name);
    return;
  }
  record.began = at;
  record.end = {later_us(at, record.ttl)};
  const NoteRef note = new_note(record.name);
  // With a disk that fails now the grant, which must be committed too, is not answered.
  HoldCall unused;
  keep(unused, note.get());
  insert(shard, record, note.get());
  count(Event::held, record.is_place);
  answer_held(call, record, at);
}

void Holds::drop(Wait& wait, bool is_granted, base::Time now) {
  auto& waiting = static_cast<Waiting&>(wait);
  Record& record = waiting.record;
  Shard& shard = shard_of(record.name);
  const std::lock_guard lock(shard.mutex);
  if (is_granted) {
    waiting.add_parts();
    if (shard.find(record.name) == Shard::none) {
      // It ends at once; where the store cannot settle it now, as soon as it can.
      record.terms.keeps = false;
      record.end = now;
      insert(shard, record, nullptr);
      const uint32_t place = shard.find(record.name);
      Loaded held(shard, place);
      const NoteRef note = new_note(record.name);
      if (end(*held, now, note.get())) save(shard, place, held, note.get());
      return;
    }
  }
  give_back(record, now);
  leave_room(Room::held, user_in(record.name), 1);
  if (is_granted) note_as_it_is(shard, record.name);
}

// The note of a grant that came to nothing gives way to what there is of that name.
void Holds::note_as_it_is(Shard& shard, const std::string& name) {
  const NoteRef note = new_note(name);
  if (!note) return;
  const uint32_t place = shard.find(name);
  if (place == Shard::none) {
    note->fill(std::nullopt);
  } else {
    const Loaded record(shard, place);
    note->fill(text_of(*record));
  }
  HoldCall unused;
  keep(unused, note.get());
}

void Holds::insert(Shard& shard, Record& record, request::HoldNote* note) {
  put_shadows_last(record);
  if (note) note->fill(text_of(record));
  if (record.state == State::held) {
    if (record.is_place) places_.fetch_add(1);
    join_owner(record);
  }
  const uint32_t place = shard.insert(record);
  count_bytes(record.name, 0, shard.places[place].size);
  push_due(shard, place, record.end.us);
}

bool Holds::charge_unknown(HoldCall& call, const request::Batch& batch,
                           std::span<const Share> shares, base::Time now, const Asker& asker,
                           bool& known) {
  if (!are_known(batch.charges, now, asker)) return false;
  const std::string& name = name_of(call.user, call.id);
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  const uint32_t place = shard.find(name);
  known = place != Shard::none && !forget_old(shard, place, now);
  if (known) {
    settle(shard, place, call, now);
    return true;
  }
  call.outcome = HoldOutcome::failed;
  // Where too many are remembered it is charged all the same.
  const bool remembers = take_room(Room::settled, call.user, 1, options_.most);
  const NoteRef note = remembers ? new_note(name) : NoteRef();
  if (note) note->set_first();
  const auto enforced =
      std::ranges::find_if(batch.groups, [](const request::Group& one) { return !one.may_fail; });
  SLUICE_CHECK(enforced != batch.groups.end());
  enforced->note = note.get();
  bool later = false;
  for (size_t done = 0; done < batch.groups.size() && !later;) {
    const Applied applied =
        store_.apply({batch.groups.subspan(done), batch.charges, batch.decisions}, now);
    later = applied.later;
    done += applied.settled;
  }
  enforced->note = nullptr;
  if (later || enforced->error != request::Error::none) {
    call.error = later ? request::Error::store : enforced->error;
    if (remembers) leave_room(Room::settled, call.user, 1);
    return true;
  }
  call.outcome = HoldOutcome::done;
  call.late = true;
  call.used = call.units;
  call.charged = charged_of(call, batch, shares);
  if (!remembers) return true;
  Record record;
  record.name = name;
  record.state = State::committed;
  record.is_counted = record.late = true;
  record.began = now;
  record.end = {later_us(now, options_.remember)};
  record.reserved.assign(call.units.size(), 0);
  record.used = call.units;
  show_charged(call, batch, shares, record);
  insert(shard, record, note.get());
  return true;
}

// The units that were charged of all subjects: of each so many as its counter with the least room
// took.
int64_t Holds::charged_of(const HoldCall& call, const request::Batch& batch,
                          std::span<const Share> shares) {
  int64_t sum = 0;
  for (size_t subject = 0; subject < call.units.size(); ++subject) {
    std::optional<int64_t> its;
    for (const request::Group& group : batch.groups) {
      if (group.may_fail) continue;
      for (uint32_t i = group.charge_first; i < group.charge_first + group.charge_count; ++i) {
        const Charge& charge = batch.charges[i];
        if ((shares[i].subjects >> subject & 1) == 0 || !limit::is_counted(charge.limits)) continue;
        const int64_t units = std::max<int64_t>(call.units[subject] - charge.dropped, 0);
        its = std::min(its.value_or(units), units);
      }
    }
    sum += its.value_or(0);
  }
  return sum;
}

// Keeps of a commit what it came to and the limit that it shows, so that it is answered again.
void Holds::show_charged(const HoldCall& call, const request::Batch& batch,
                         std::span<const Share> shares, Record& record) {
  HoldCall shown = call;
  shown.has_decision = false;
  for (const request::Group& group : batch.groups) {
    if (group.may_fail) continue;
    for (uint32_t i = group.charge_first; i < group.charge_first + group.charge_count; ++i) {
      const Charge& charge = batch.charges[i];
      for (size_t l = 0; l < charge.decided(); ++l) {
        const limit::Decision& decision = batch.decisions[charge.decision_first + l];
        if (shown.has_decision && !request::is_tighter_of_charge(decision, shown.decision))
          continue;
        shown.has_decision = true;
        shown.decision = decision;
        shown.rule = shares[i].rule;
      }
    }
  }
  keep_shown(shown, record);
}

// Are the counters of these charges there, so that what is settled now is settled at once? False:
// the store looks for them first.
bool Holds::are_known(std::span<const Charge> charges, base::Time now, const Asker& asker) {
  if (store_.answers_at_once()) [[likely]]
    return true;
  std::vector<Charge> looks(charges.begin(), charges.end());
  std::vector<request::Group> groups(looks.size());
  std::vector<limit::Decision> decisions;
  for (size_t i = 0; i < looks.size(); ++i) {
    looks[i].verb = Verb::peek;
    looks[i].cost = 0;
    looks[i].costs = nullptr;
    looks[i].held = nullptr;
    looks[i].decision_first = static_cast<uint32_t>(decisions.size());
    decisions.resize(decisions.size() + limit::slots_max);
    groups[i].charge_first = static_cast<uint32_t>(i);
    groups[i].charge_count = 1;
    groups[i].may_fail = true;
  }
  return !store_.apply({groups, looks, decisions}, now, asker.completions, {}, asker.ticket).later;
}

// Forgets a record without counters, which is noted.
void Holds::forget(Shard& shard, uint32_t place, Loaded& record) {
  const std::string_view user = user_in(record->name);
  if (record->is_counted) leave_room(Room::settled, user, 1);
  count_bytes(record->name, shard.places[place].size, 0);
  record.erase();
}

// ---- Settling ----

// Settles the charges of enforced rules all or nothing, and then those of rules in shadow, each by
// itself. False: the call says why not, and nothing has changed.
bool Holds::apply(HoldCall& call, Settling& settling, base::Time now, request::HoldNote* note) {
  // The memory of the thread outlives the spaces that its lists are of.
  const std::vector<request::LimitsRef> lists = std::move(settling.lists);
  const std::span<request::Group> groups = settling.groups;
  const bool enforces = !groups.empty() && !groups.front().may_fail;
  if (!enforces && !keep(call, note)) return false;
  if (enforces) {
    request::Group& group = groups.front();
    group.note = note;
    const Applied applied = store_.apply({{&group, 1}, settling.charges, settling.decisions}, now);
    if (applied.later || group.error != request::Error::none) {
      call.outcome = HoldOutcome::failed;
      call.error = applied.later ? request::Error::store : group.error;
      return false;
    }
    show(call, settling, group);
    if (!group.allowed) {
      call.outcome = HoldOutcome::refused;
      return false;
    }
  }
  for (std::span<request::Group> rest = groups.subspan(enforces ? 1 : 0); !rest.empty();) {
    const Applied applied = store_.apply({rest, settling.charges, settling.decisions}, now);
    if (applied.later) break;
    rest = rest.subspan(applied.settled);
  }
  return true;
}

// Keeps a note that belongs to no change of an enforced counter. False: the call says why not.
bool Holds::keep(HoldCall& call, request::HoldNote* note) {
  if (note == nullptr) return true;
  call.error = notes_->keep(*note);
  if (call.error != request::Error::none) call.outcome = HoldOutcome::failed;
  return call.error == request::Error::none;
}

// Tells which limit of the group is nearest to its end.
void Holds::show(HoldCall& call, const Settling& settling, const request::Group& group) {
  call.has_decision = false;
  const auto show = [&](size_t i, const limit::Limit& limit, const limit::Decision& decision,
                        const auto& is_tighter) {
    if (call.has_decision && !is_tighter(decision, call.decision)) return;
    call.has_decision = true;
    call.limit = limit;
    call.decision = decision;
    call.rule = settling.sources[i]->rule;
  };
  for (size_t i = group.charge_first; i < group.charge_first + group.charge_count; ++i) {
    const Charge& charge = settling.charges[i];
    const HeldCharge& held = settling.held[i];
    if (charge.verb == Verb::settle) {
      if (held.is_decided) show(i, held.limit, held.decision, request::is_tighter_of_charge);
      continue;
    }
    for (size_t l = 0; l < charge.limits.size(); ++l)
      if (limit::has_counter(charge.limits[l].algorithm))
        show(i, charge.limits[l], settling.decisions[charge.decision_first + l],
             request::is_tighter);
  }
}

bool Holds::settle(HoldCall& call, base::Time now, const Asker& asker) {
  const std::string& name = name_of(call.user, call.id);
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.mutex);
  const uint32_t place = shard.find(name);
  if (place != Shard::none && !store_.answers_at_once()) {
    const Loaded record(shard, place);
    Settling& looks = Settling::begin(*record);
    for (const Counter& counter : record->counters)
      looks.add(spaces_, counter, {}, Verb::peek, 0, 0);
    const std::vector<request::LimitsRef> lists = std::move(looks.lists);
    if (!are_known(looks.charges, now, asker)) return false;
  }
  if (place == Shard::none || forget_old(shard, place, now)) {
    call.outcome = HoldOutcome::unknown;
    count(Event::unknown, false);
  } else {
    settle(shard, place, call, now);
  }
  return true;
}

// With the lock of its shard.
void Holds::settle(Shard& shard, uint32_t place, HoldCall& call, base::Time now) {
  Loaded loaded(shard, place);
  Record& record = *loaded;
  call.made_id = call.id;
  if (record.state == State::held && record.end <= now) {
    const NoteRef note = new_note(record.name);
    if (!end(record, now, note.get())) {
      call.outcome = HoldOutcome::failed;
      call.error = request::Error::store;
      return;
    }
    save(shard, place, loaded, note.get());
    loaded.load();
  }
  const bool counts = call.ask == HoldAsk::extend || call.ask == HoldAsk::commit;
  if (counts && call.units.size() != record.reserved.size()) {
    call.reserved = record.reserved;
    call.outcome = HoldOutcome::wrong_number;
    return;
  }
  const NoteRef note = new_note(record.name);
  if (call.ask == HoldAsk::release) {
    if (!release(call, record, now, note.get())) return;
  } else if (call.ask == HoldAsk::commit) {
    if (!commit(call, record, now, note.get())) return;
  } else if (record.state != State::held) {
    call.outcome = gone(record);
    call.used = record.used;
    return;
  } else {
    if (call.ttl.us > 0) record.ttl = {std::min(call.ttl.us, record.terms.ttl_max.us)};
    const base::Time end{later_us(now, record.ttl)};
    const bool moves = record.has_places();
    if (call.ask == HoldAsk::extend && !extend(call, record, now, moves ? nullptr : note.get()))
      return;
    if (moves ? !move_places(call, record, end, now, note.get())
              : call.ask == HoldAsk::renew && !keep(call, note.get())) {
      // What an extension took has its old end.
      if (call.ask == HoldAsk::extend) save(shard, place, loaded, nullptr);
      return;
    }
    record.end = end;
    answer_held(call, record, now);
  }
  save(shard, place, loaded, note.get());
}

// These three change the record. False: nothing has changed, and the call says why.

bool Holds::extend(HoldCall& call, Record& record, base::Time now, request::HoldNote* note) {
  // The oldest parts of too many count as used, which places cannot.
  const bool is_full = std::ranges::any_of(record.counters, [&](const Counter& counter) {
    return counter.parts.size() >= std::max<size_t>(parts_max / record.counters.size(), 4);
  });
  if (is_full && record.has_places()) {
    call.outcome = HoldOutcome::full;
    return false;
  }
  size_t bytes = 0;
  for (const Counter& counter : record.counters) bytes += 64 + 20 * counter.source->limits.size();
  if (!has_bytes(call.user, bytes)) {
    call.outcome = HoldOutcome::full;
    return false;
  }
  Settling& settling = Settling::begin(record);
  settling.ttl = record.ttl;
  for (const Counter& counter : record.counters)
    settling.add(spaces_, counter, {}, Verb::reserve, counter.share_of(call.units), 0);
  if (!apply(call, settling, now, note)) {
    if (call.outcome == HoldOutcome::refused) {
      call.reserved = record.reserved;
      count(Event::refused, record.is_place);
    }
    return false;
  }
  // One in shadow may have refused.
  for (size_t i = 0; i < record.counters.size(); ++i)
    if (settling.held[i].is_taken) add_part(settling.charges[i], record.counters[i]);
  for (size_t i = 0; i < record.reserved.size(); ++i)
    record.reserved[i] = std::min(record.reserved[i] + call.units[i], limit::used_max);
  bound_parts(record, now);
  return true;
}

// The places of a hold end then. False: nothing has changed, and the call says why.
bool Holds::move_places(HoldCall& call, Record& record, base::Time to, base::Time now,
                        request::HoldNote* note) {
  Settling& settling = Settling::begin(record);
  settling.moves_to = to;
  for (const Counter& counter : record.counters)
    settling.add(spaces_, counter, counter.parts, Verb::settle, 0, counter.units());
  if (!apply(call, settling, now, note)) return false;
  for (size_t i = 0; i < record.counters.size(); ++i)
    for (size_t p = 0; p < record.counters[i].parts.size(); ++p)
      record.counters[i].parts[p].marks = settling.held[i].parts[p].marks;
  return true;
}

// The oldest parts of a hold that has too many count as used.
void Holds::bound_parts(Record& record, base::Time now) {
  for (Counter& counter : record.counters) {
    if (counter.parts.size() <= std::max<size_t>(parts_max / record.counters.size(), 4)) continue;
    const Counter::Part& oldest = counter.parts.front();
    Settling& settling = Settling::begin(1, 1);
    settling.add(spaces_, counter, {&oldest, 1}, Verb::settle, 0, oldest.units);
    HoldCall unused;
    // The note of the extension says it.
    if (!apply(unused, settling, now, nullptr)) continue;
    counter.final_units += oldest.units;
    counter.parts.erase(counter.parts.begin());
  }
}

// Settles all counters of the hold with what was used of each subject. False: nothing has changed.
bool Holds::settle_all(HoldCall& call, Record& record, std::span<const int64_t> of_subjects,
                       base::Time now, request::HoldNote* note) {
  // Of places that were acquired all else was taken for good.
  const std::span<const int64_t> used = record.is_place ? record.reserved : of_subjects;
  Settling& settling = Settling::begin(record);
  for (const Counter& counter : record.counters)
    settling.add_settled(spaces_, counter, counter.share_of(used));
  if (!apply(call, settling, now, note)) return false;
  // Subjects that share a counter are told of together, as one may have used what another left.
  call.returned = call.charged = 0;
  const bool was_released = record.state == State::released;
  for (uint64_t left = used.size() < 64 ? (uint64_t{1} << used.size()) - 1 : UINT64_MAX;
       left != 0;) {
    uint64_t subjects = left & (~left + 1);
    for (uint64_t before = 0; before != subjects;) {
      before = subjects;
      for (const Counter& counter : record.counters)
        if (!counter.shadow && (counter.subjects & subjects) != 0) subjects |= counter.subjects;
    }
    left &= ~subjects;
    int64_t its_reserved = 0, its_used = 0, returned = 0, dropped = 0;
    bool any = false;
    for (size_t s = 0; s < used.size(); ++s) {
      if ((subjects >> s & 1) == 0) continue;
      its_used += used[s];
      if (!was_released) its_reserved += record.reserved[s];
    }
    for (size_t i = 0; i < record.counters.size(); ++i) {
      const Counter& counter = record.counters[i];
      if (counter.shadow || (counter.subjects & subjects) == 0) continue;
      any = true;
      returned = std::max(returned, settling.held[i].returned);
      dropped = std::max(dropped, settling.charges[i].dropped);
    }
    call.returned +=
        record.is_place ? returned : std::clamp<int64_t>(its_reserved - its_used, 0, returned);
    if (any) call.charged += std::max<int64_t>(its_used - its_reserved - dropped, 0);
  }
  for (Counter& counter : record.counters) {
    counter.parts.clear();
    counter.final_units = 0;
  }
  return true;
}

bool Holds::commit(HoldCall& call, Record& record, base::Time now, request::HoldNote* note) {
  if (record.state == State::committed) {
    if (call.units != record.used) {
      call.outcome = HoldOutcome::settled;
      call.used = record.used;
    } else {
      answer_again(call, record);
      count(Event::repeated, record.is_place);
    }
    return false;
  }
  const bool late = record.state != State::held;
  if (record.state == State::released && record.terms.ignores_late) {
    call.outcome = HoldOutcome::ended;
    return false;
  }
  if (!settle_all(call, record, call.units, now, note)) return false;
  record.counters.clear();
  record.used = call.units;
  keep_shown(call, record);
  record.late = late;
  set_state(record, State::committed, now);
  count(late ? Event::late : Event::committed, record.is_place);
  const auto sum = [](std::span<const int64_t> units) {
    return static_cast<uint64_t>(std::accumulate(units.begin(), units.end(), int64_t{0}));
  };
  reserved_units_.fetch_add(sum(record.reserved), std::memory_order_relaxed);
  used_units_.fetch_add(sum(record.used), std::memory_order_relaxed);
  answer_again(call, record);
  call.repeated = false;
  return true;
}

// No unit of each subject.
std::span<const int64_t> Holds::nothing_of(const Record& record) {
  static constexpr std::array<int64_t, 64> none{};
  return std::span(none).first(record.reserved.size());
}

bool Holds::release(HoldCall& call, Record& record, base::Time now, request::HoldNote* note) {
  call.returned = 0;
  if (record.state == State::committed) {
    call.outcome = HoldOutcome::settled;
    call.used = record.used;
    return false;
  }
  call.outcome = HoldOutcome::done;
  call.reserved = record.reserved;
  if (record.state == State::released) return false;
  if (!settle_all(call, record, nothing_of(record), now, note)) return false;
  set_state(record, State::released, now);
  count(Event::released, record.is_place);
  return true;
}

// ---- Ends ----

void Holds::join_owner(const Record& record) {
  if (record.owner == 0) return;
  const std::lock_guard lock(owners_mutex_);
  owners_[record.owner].insert(record.name);
}

void Holds::leave_owner(const Record& record) {
  if (record.owner == 0) return;
  const std::lock_guard lock(owners_mutex_);
  const auto its = owners_.find(record.owner);
  if (its == owners_.end()) return;
  its->second.erase(record.name);
  if (its->second.empty()) owners_.erase(its);
}

void Holds::close(uint64_t owner, base::Time now) {
  std::unordered_set<std::string> names;
  {
    const std::lock_guard lock(owners_mutex_);
    const auto its = owners_.find(owner);
    if (its == owners_.end()) return;
    names = std::move(its->second);
    owners_.erase(its);
  }
  for (const std::string& name : names) {
    HoldCall call{.ask = HoldAsk::release, .user = user_in(name), .id = id_in(name)};
    // What the store cannot settle now ends with its lease.
    static_cast<void>(settle(call, now, {}));
  }
}

// The hold's end has come. False: the store cannot settle it now, or it has ended before.
bool Holds::end(Record& record, base::Time now, request::HoldNote* note) {
  if (record.state != State::held) return false;
  HoldCall unused;
  if (record.terms.keeps) {
    if (!keep(unused, note)) return false;
  } else {
    if (!settle_all(unused, record, nothing_of(record), now, note)) return false;
  }
  count(record.terms.keeps ? Event::kept : Event::expired, record.is_place);
  set_state(record, record.terms.keeps ? State::kept : State::released, now);
  return true;
}

// Forgets a record that was remembered long enough; what it kept stays used. False: it is none, or
// the store cannot settle it now.
bool Holds::forget_old(Shard& shard, uint32_t place, base::Time now) {
  if (!Packed::is_over(shard.places[place].bytes.get(), now)) return false;
  Loaded record(shard, place);
  HoldCall unused;
  const NoteRef note = new_note(record->name);
  if (note) note->fill(std::nullopt);
  if (record->state == State::kept ? !settle_all(unused, *record, record->reserved, now, note.get())
                                   : !keep(unused, note.get()))
    return false;
  record->counters.clear();
  forget(shard, place, record);
  return true;
}

// Looks at so much as `budget` has, in charges, and takes that from it.
void Holds::end_due_of(Shard& shard, base::Time now, size_t& budget) {
  const std::lock_guard lock(shard.mutex);
  while (budget > 0 && !shard.due.empty() && shard.due.top().at_us <= now.us) {
    const Shard::Due one = shard.due.top();
    shard.due.pop();
    if (!shard.is_valid(one)) continue;
    shard.places[one.place].due_us = never_us;
    const size_t cost = 1 + shard.places[one.place].size / bytes_of_record;
    budget -= std::min(budget, cost);
    if (forget_old(shard, one.place, now)) continue;
    Loaded record(shard, one.place);
    const NoteRef note = new_note(record->name);
    if (record->end > now)
      push_due(shard, one.place, record->end.us);  // it was renewed or settled
    else if (end(*record, now, note.get()))
      save(shard, one.place, record, note.get());
    else
      push_due(shard, one.place, later_us(now, retry_after));
  }
  shard.next_us.store(shard.due.empty() ? never_us : shard.due.top().at_us);
}

void Holds::end_due(base::Time now) {
  if (next_due_us_.load(std::memory_order_relaxed) > now.us) return;
  // While this looks, others come again soon, so that none sleeps past an end that is found here.
  int64_t meanwhile = later_us(now, look_again);
  next_due_us_.store(meanwhile);
  size_t budget = ends_at_once;
  int64_t next = never_us;
  const size_t first = first_shard_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < shard_count; ++i) {
    Shard& shard = (*shards_)[(first + i) % shard_count];
    if (shard.next_us.load() <= now.us && budget > 0) end_due_of(shard, now, budget);
    next = std::min(next, shard.next_us.load());
  }
  if (next < meanwhile)
    note_due(next);
  else
    next_due_us_.compare_exchange_strong(meanwhile, next);
}

// ---- What outlives the process ----

// Null: the store forgets holds.
Holds::NoteRef Holds::new_note(std::string_view name) const {
  if (notes_ == nullptr) return NoteRef();
  return NoteRef(std::make_shared<request::HoldNote>(std::string(1, hold_note).append(name)));
}

// The form of these texts.
constexpr uint64_t note_version = 1;

// The lists that its counters name, and the record with the places of these.
std::string Holds::text_of(Record& record) const {
  std::vector<const Source*> lists;
  const std::string_view packed =
      Packed::pack(record, false, [&](Packed::Writer& to, const SourceRef& source) {
        const auto at = std::ranges::find(lists, source.get());
        to.number(static_cast<uint64_t>(at - lists.begin()));
        if (at == lists.end()) lists.push_back(source.get());
      });
  std::string text;
  std::array<char, Packed::Writer::number_bytes_max> room;
  const auto add = [&](uint64_t n) {
    Packed::Writer to(room.data());
    to.number(n);
    text.append(room.data(), static_cast<size_t>(to.at() - room.data()));
  };
  const auto add_list = [&](const Source& source, std::span<const limit::Limit> limits) {
    std::string list;
    notes_->append_list(list, *source.space.get(), limits);
    add(list.size());
    text += list;
  };
  add(note_version);
  add(lists.size());
  for (const Source* const source : lists) {
    add_list(*source, source->limits);
    add(source->rule.size());
    text += source->rule;
    add(source->overdrafts ? 1 : 0);
    if (!source->overdrafts) continue;
    add_list(*source, std::span(source->overdrafts->limits).first(source->overdrafts->count));
    for (size_t i = 0; i < source->overdrafts->count; ++i)
      add(static_cast<uint64_t>(source->overdrafts->most[i]));
  }
  return text.append(packed);
}

// False: it cannot be read.
bool Holds::read(std::string_view text, Record& record) {
  Packed::Reader from(text.data(), text.data() + text.size());
  if (from.number() != note_version) return false;
  std::vector<SourceRef> lists(from.count());
  const auto list = [&](request::Space& space, std::vector<limit::Limit>& limits) {
    return notes_->parse_list(from.text(), space, limits) && from.is_sound();
  };
  for (SourceRef& its : lists) {
    request::Space space;
    std::vector<limit::Limit> limits, others;
    if (!list(space, limits) || limits.size() > limit::slots_max) return false;
    const std::string_view rule = from.text();
    std::optional<limit::Overdrafts> overdrafts;
    if (from.number() == 1) {
      overdrafts.emplace();
      if (!list(space, others) || others.size() > limit::slots_max) return false;
      for (const limit::Limit& one : others)
        overdrafts->add(one, static_cast<int64_t>(from.number()));
    }
    const request::SpaceRef known = spaces_.hold(space.prefix, space.suffix, space);
    const request::LimitsRef number = spaces_.hold_limits(limits);
    its = source_of(*known.get(), limits, number.id(), rule, overdrafts ? &*overdrafts : nullptr);
  }
  Packed::unpack(from, record, [&](Packed::Reader& its) {
    const uint64_t at = its.number();
    if (at < lists.size()) return lists[at];
    its.fail();
    return SourceRef();
  });
  return from.is_sound() && from.is_at_end();
}

base::Result<size_t> Holds::restore(base::Time now) {
  if (notes_ == nullptr) return size_t{0};
  size_t unreadable = 0;
  // By the stored names of counters.
  struct Again {
    request::SpaceRef space;
    std::string key;
    size_t parts = 0;
    limit::Given given;
  };
  std::unordered_map<std::string, Again> counters;
  const auto read_hold = [&](std::string_view name, std::string_view text) {
    Record record;
    if (!read(text, record) || record.name != name) return false;
    const std::string_view user = user_in(name);
    // Also those that are too many by now.
    if (record.state == State::held)
      take_room(Room::held, user, 1, SIZE_MAX);
    else if (record.is_counted)
      take_room(Room::settled, user, 1, SIZE_MAX);
    for (const Counter& counter : record.counters) {
      if (counter.parts.empty()) continue;
      const request::Space& space = *counter.source->space.get();
      Again& again = counters[space.prefix + counter.key + space.suffix];
      again.space = spaces_.hold(space.prefix, space.suffix, space);
      again.key = counter.key;
      again.parts += counter.parts.size();
    }
    // Its connection has gone.
    if (record.state == State::held && std::exchange(record.owner, 0) != 0) record.end = now;
    Shard& shard = shard_of(name);
    const std::lock_guard lock(shard.mutex);
    insert(shard, record, nullptr);
    return true;
  };
  base::Done done = notes_->read([&](std::string_view name, std::string_view text) {
    const char kind = name.front();
    name.remove_prefix(1);
    if (kind == hold_note) {
      if (!read_hold(name, text)) ++unreadable;
      return;
    }
    // These come after all holds.
    const auto its = counters.find(std::string(name));
    if (its != counters.end()) parse_given(text, its->second.given);
  });
  if (!done) return std::move(done).problem();
  for (const auto& [name, one] : counters)
    notes_->hold_again(*one.space.get(), one.key, one.parts, one.given);
  end_missed(now);
  return unreadable;
}

// Ends what was due while no server was there, before anything is decided. The store may have to
// load its counters first.
void Holds::end_missed(base::Time now) {
  constexpr int tries_max = 5'000;
  for (int tries = 0;; ++tries) {
    size_t left = 0;
    for (Shard& shard : *shards_) {
      const std::lock_guard lock(shard.mutex);
      std::vector<uint32_t> not_yet;
      while (!shard.due.empty() && shard.due.top().at_us <= now.us) {
        const Shard::Due one = shard.due.top();
        shard.due.pop();
        if (!shard.is_valid(one)) continue;
        shard.places[one.place].due_us = never_us;
        if (forget_old(shard, one.place, now)) continue;
        Loaded record(shard, one.place);
        const NoteRef note = new_note(record->name);
        if (record->end > now)
          push_due(shard, one.place, record->end.us);
        else if (end(*record, now, note.get()))
          save(shard, one.place, record, note.get());
        else
          not_yet.push_back(one.place);
      }
      for (const uint32_t place : not_yet) push_due(shard, place, now.us);
      left += not_yet.size();
    }
    // What the store still cannot settle ends as soon as it can.
    if (left == 0 || tries == tries_max) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// ---- For people ----

void Holds::each_held(const std::function<void(const Record&)>& visit,
                      const std::function<bool()>& pause) const {
  constexpr uint32_t at_once = 64;  // with a shard's lock
  for (Shard& shard : *shards_) {
    for (uint32_t from = 0;; from += at_once) {
      {
        const std::lock_guard lock(shard.mutex);
        if (from >= shard.places.size()) break;
        const auto end = std::min<size_t>(from + at_once, shard.places.size());
        for (uint32_t place = from; place < end; ++place) {
          if (shard.places[place].bytes == nullptr) continue;
          const Loaded record(shard, place);
          if (record->state == State::held) visit(*record);
        }
      }
      if (!pause()) return;
    }
  }
}

void Holds::each(base::Time now, const std::function<bool(const Listed&)>& visit) const {
  std::vector<Listed> some;
  each_held([&](const Record& record) { some.push_back(listed(record, now)); },
            [&] {
              const bool goes_on = std::ranges::all_of(some, visit);
              some.clear();
              return goes_on;
            });
}

bool Holds::add_held(base::Time now, OfCounters& counters) const {
  std::string name;
  each_held(
      [&](const Record& record) {
        if (record.end <= now) return;
        for (const Counter& counter : record.counters) {
          const bool has_places = std::ranges::any_of(counter.source->limits, limit::has_places);
          // Of an acquire's other counters units are taken for good.
          if (record.is_place && !has_places) continue;
          const request::Space& space = *counter.source->space.get();
          name.assign(space.prefix).append(counter.key).append(space.suffix);
          const auto found = counters.find(name);
          if (found == counters.end()) continue;
          OfCounter& of = found->second;
          const base::Duration ends_in{record.end.us - now.us};
          of.first_end = of.holds == 0 ? ends_in : std::min(of.first_end, ends_in);
          of.last_end = std::max(of.last_end, ends_in);
          ++of.holds;
          if (!record.is_place) of.units += counter.units();
          if (has_places) of.places += counter.units();
        }
      },
      [] { return true; });
  return true;
}

Holds::Listed Holds::listed(const Record& record, base::Time now) {
  Listed one;
  one.id = id_in(record.name);
  one.user = user_in(record.name);
  one.holder = record.holder;
  one.is_place = record.is_place;
  one.units = std::accumulate(record.reserved.begin(), record.reserved.end(), int64_t{0});
  one.age = {std::max<int64_t>(now.us - record.began.us, 0)};
  one.ends_in = {std::max<int64_t>(record.end.us - now.us, 0)};
  if (record.counters.empty()) return one;
  const Counter& counter = record.counters.front();
  const request::Space& space = *counter.source->space.get();
  one.rule = counter.source->rule;
  one.actor = counter.key;
  one.counter = space.prefix + counter.key + space.suffix;
  return one;
}

Holds::Figures Holds::figures() const {
  Figures figures;
  figures.holds = rooms_[static_cast<size_t>(Room::held)].load();
  figures.places = std::min(places_.load(), figures.holds);
  figures.remembered = rooms_[static_cast<size_t>(Room::settled)].load();
  for (size_t i = 0; i < events_.size(); ++i) {
    figures.of_places[i] = of_places_[i].load();
    figures.events[i] = std::max(events_[i].load(), figures.of_places[i]);
  }
  figures.reserved_units = reserved_units_.load();
  figures.used_units = used_units_.load();
  return figures;
}

}  // namespace sluice::store
