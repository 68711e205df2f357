#include "protocol/resp/command_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace sluice::resp {
namespace {

using access::Right;

constexpr CommandEntry entries[] = {
    {"asking", 1, "fast", 0, 0, 0, "@fast @connection", "cluster", "3.0.0",
     "Accepted, without effect: there is no cluster.", ""},
    {"auth", -2, "noscript loading stale fast no_auth", 0, 0, 0, "@fast @connection", "connection",
     "1.0.0", "Authenticates the connection.", "username:string? password:string"},
    {"cl.throttle", -5, "write denyoom fast", 1, 1, 1, "@write @fast", "generic", "1.0.0",
     "Takes units of a key's limit, as redis-cell does.",
     "key:key max_burst:integer count:integer period:integer quantity:integer?", Right::take,
     limit::Algorithm::gcra_cell},
    {"client", -2, "noscript loading stale", 0, 0, 0, "@slow @connection", "connection", "2.4.0",
     "Commands about the connection.", "subcommand:string argument:string?"},
    {"cluster", -2, "stale", 0, 0, 0, "@slow", "cluster", "3.0.0",
     "Tells that there is no cluster.", "subcommand:string argument:string?"},
    {"command", -1, "loading stale", 0, 0, 0, "@slow @connection", "server", "2.8.13",
     "Tells of the commands that there are.", "subcommand:string? argument:string?"},
    {"config", -2, "admin noscript loading stale", 0, 0, 0, "@admin @slow @dangerous", "server",
     "2.0.0", "GET answers with nothing: the configuration is in sluice.yaml.",
     "subcommand:string argument:string?"},
    {"del", -2, "write", 1, -1, 1, "@write @keyspace", "keys", "1.0.0",
     "Makes the counters of keys fresh ones; tells how many there were.", "key:key", Right::put},
    {"discard", 1, "noscript loading stale fast", 0, 0, 0, "@fast @transaction", "transactions",
     "2.0.0", "Forgets the commands since MULTI.", ""},
    {"echo", 2, "fast", 0, 0, 0, "@fast @connection", "connection", "1.0.0", "Gives the text back.",
     "message:string"},
    {"exec", 1, "noscript loading stale", 0, 0, 0, "@slow @transaction", "transactions", "1.2.0",
     "Executes the commands since MULTI, one after the other.", ""},
    {"exists", -2, "readonly fast", 1, -1, 1, "@read @keyspace", "keys", "1.0.0",
     "Tells how many counters keys have.", "key:key", Right::look},
    {"gcra", -5, "write denyoom fast", 1, 1, 1, "@write @fast", "generic", "8.8.0",
     "Takes units of a key's limit, as Redis' GCRA command does.",
     "key:key max_burst:integer tokens_per_period:integer period:double tokens:integer?",
     Right::take, limit::Algorithm::gcra_redis},
    {"hello", -1, "noscript loading stale fast no_auth", 0, 0, 0, "@fast @connection", "connection",
     "6.0.0", "Chooses the version of the protocol, and tells of the server.",
     "protover:integer? option:string?"},
    {"increx", -2, "write denyoom fast", 1, 1, 1, "@write @string @fast", "string", "8.8.0",
     "Takes units of a key's fixed window, as Redis' INCREX with UBOUND and ENX does.",
     "key:key byint:integer? ubound:integer ex:integer? px:integer? enx:string", Right::take,
     limit::Algorithm::fixed_window},
    {"info", -1, "loading stale", 0, 0, 0, "@slow @dangerous", "server", "1.0.0",
     "Tells of the server: version, clients, memory, counters.", "section:string?"},
    {"multi", 1, "noscript loading stale fast", 0, 0, 0, "@fast @transaction", "transactions",
     "1.2.0", "Begins a list of commands that EXEC executes.", ""},
    {"ping", -1, "fast", 0, 0, 0, "@fast @connection", "connection", "1.0.0",
     "Answers PONG, or with the text.", "message:string?"},
    {"pttl", 2, "readonly fast", 1, 1, 1, "@read @keyspace", "keys", "2.6.0",
     "Tells in how many milliseconds a key's counters are as fresh.", "key:key", Right::look},
    {"quit", -1, "noscript loading stale fast no_auth", 0, 0, 0, "@fast @connection", "connection",
     "1.0.0", "Closes the connection.", ""},
    {"readonly", 1, "loading stale fast", 0, 0, 0, "@fast @connection", "cluster", "3.0.0",
     "Accepted, without effect: there is no cluster.", ""},
    {"readwrite", 1, "loading stale fast", 0, 0, 0, "@fast @connection", "cluster", "3.0.0",
     "Accepted, without effect: there is no cluster.", ""},
    {"reset", 1, "noscript loading stale fast no_auth", 0, 0, 0, "@fast @connection", "connection",
     "6.2.0", "Makes the connection as a new one.", ""},
    {"select", 2, "loading stale fast", 0, 0, 0, "@fast @connection", "connection", "1.0.0",
     "Chooses the database, whose number is part of counters' names.", "index:integer"},
    {"sluice.acquire", -3, "write denyoom blocking", 0, 0, 0, "@write @blocking", "sluice", "1.0.0",
     "Takes places for a time, until they are released.",
     "ttl:double subject:string n:integer? id:string? wait:double? holder:string? close:string?",
     Right::take},
    {"sluice.charge", -2, "write denyoom fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Counts units that were used, past the limit too.", "subject:string n:integer? id:string?",
     Right::take},
    {"sluice.commit", -4, "write denyoom fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Settles a reservation with the units that were used.", "id:string n:integer subject:string?",
     Right::take},
    {"sluice.explain", -2, "readonly fast", 0, 0, 0, "@read @fast", "sluice", "1.0.0",
     "Tells which rules and limits decide a request, and what they would say now.",
     "subject:string", Right::look},
    {"sluice.extend", -2, "write denyoom fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Takes units more for a reservation, and sets its end.", "id:string n:integer? ttl:double?",
     Right::take},
    {"sluice.help", 1, "fast", 0, 0, 0, "@fast", "sluice", "1.0.0", "Tells of SLUICE commands.",
     ""},
    {"sluice.info", 1, "fast", 0, 0, 0, "@fast", "sluice", "1.0.0", "Tells of the server.", ""},
    {"sluice.mreserve", -6, "write denyoom fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Reserves units of several subjects, of all or of none.",
     "ttl:double numsubjects:integer subject:string n:integer id:string? holder:string?",
     Right::take},
    {"sluice.mtake", -3, "write denyoom fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Takes units of several subjects, of all or of none.",
     "numsubjects:integer subject:string each:string? n:integer?", Right::take},
    {"sluice.peek", -2, "readonly fast", 0, 0, 0, "@read @fast", "sluice", "1.0.0",
     "Tells whether units could be taken now; takes none.", "subject:string n:integer?",
     Right::look},
    {"sluice.put", -2, "write fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Gives units back.", "subject:string n:integer?", Right::put},
    {"sluice.release", 2, "write fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Gives all units of a reservation back.", "id:string", Right::take},
    {"sluice.renew", -2, "write fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Sets the end of a reservation.", "id:string ttl:double?", Right::take},
    {"sluice.reserve", -5, "write denyoom blocking", 0, 0, 0, "@write @blocking", "sluice", "1.0.0",
     "Takes units for a time, until they are committed or released.",
     "ttl:double subject:string n:integer id:string? wait:double? holder:string?", Right::take},
    {"sluice.reset", -2, "write fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Makes the counters of a subject fresh ones.", "subject:string", Right::put},
    {"sluice.take", -2, "write denyoom fast", 0, 0, 0, "@write @fast", "sluice", "1.0.0",
     "Takes units, or tells how long to wait.", "subject:string n:integer?", Right::take},
    {"sluice.wait", -3, "write denyoom blocking", 0, 0, 0, "@write @blocking", "sluice", "1.0.0",
     "Takes units as soon as they are there.", "timeout:double subject:string n:integer?",
     Right::take},
    {"throttle", -5, "write denyoom fast", 1, 1, 1, "@write @fast", "generic", "1.0.0",
     "Takes units of a key's limit, as throttlecrab does.",
     "key:key max_burst:integer count_per_period:integer period:integer quantity:integer?",
     Right::take, limit::Algorithm::gcra_crab},
    {"time", 1, "loading stale fast", 0, 0, 0, "@fast", "server", "2.6.0",
     "Tells the server's time, in seconds and microseconds.", ""},
    {"ttl", 2, "readonly fast", 1, 1, 1, "@read @keyspace", "keys", "1.0.0",
     "Tells in how many seconds a key's counters are as fresh.", "key:key", Right::look},
    {"unlink", -2, "write fast", 1, -1, 1, "@write @keyspace", "keys", "4.0.0", "As DEL.",
     "key:key", Right::put},
    {"unwatch", 1, "noscript loading stale fast", 0, 0, 0, "@fast @transaction", "transactions",
     "2.2.0", "Accepted, without effect.", ""},
    {"watch", -2, "noscript loading stale fast", 1, -1, 1, "@fast @transaction", "transactions",
     "2.2.0", "Accepted, without effect: no command reads what another client could change.",
     "key:key"},
};

// Redis' commands that are refused by name, and what to do instead.
struct Refused {
  std::string_view name, subcommand, instead;  // the names in upper case
};
constexpr std::string_view list_counters =
    "list counters with `sluice counters` or GET /v1/counters at the admin port";
constexpr std::string_view reset_counters =
    "reset counters with DEL, SLUICE.RESET or `sluice reset`";
constexpr std::string_view has_no_effect = "leave it out, as it would have no effect";
constexpr Refused refused[] = {
    {"SLUICE.HOLDS", "",
     "list what is held with `sluice holds` or GET /v1/holds at the admin port"},
    {"SCAN", "", list_counters},
    {"KEYS", "", list_counters},
    {"TYPE", "", "EXISTS tells whether a key has counters"},
    {"FLUSHALL", "", reset_counters},
    {"FLUSHDB", "", reset_counters},
    {"CLIENT", "LIST", "CLIENT INFO shows this connection, `sluice status` counts all"},
    {"CLIENT", "KILL", "a client ends its own connection with QUIT"},
    {"CLIENT", "UNBLOCK", "give SLUICE.WAIT a timeout, or close the connection that waits"},
    {"CLIENT", "PAUSE", "a rule with `deny: true` refuses requests"},
    {"CLIENT", "TRACKING", "turn off the client's cache, as replies must not be kept"},
    {"CLIENT", "NO-EVICT", has_no_effect},
    {"CLIENT", "NO-TOUCH", has_no_effect},
    {"COMMAND", "LIST", "COMMAND has the names too"},
    {"COMMAND", "GETKEYS", "COMMAND INFO tells where a command's keys are"},
};

// Calls `each` with every word of a list.
template <class Each>
void for_each_word(std::string_view list, Each each) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    each(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

size_t count_words(std::string_view list) {
  return list.empty() ? 0 : static_cast<size_t>(std::count(list.begin(), list.end(), ' ')) + 1;
}

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

// A name for lookup: its size, and its first and last 8 bytes (4 or 2 bytes of shorter names),
// which may overlap. Each command is looked up, so this avoids comparing strings.
struct NameKey {
  uint64_t first = 0, last = 0;
  size_t size = 0;
};

constexpr uint64_t small_letters = 0x2020202020202020;

template <size_t bytes>
constexpr uint64_t number_of(const char* at) {
  if (std::is_constant_evaluated()) {
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; ++i)
      number |= uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
    return number;
  }
  std::conditional_t<bytes == 8, uint64_t, std::conditional_t<bytes == 4, uint32_t, uint16_t>> read;
  std::memcpy(&read, at, bytes);
  return read;
}

// Determines a name of 2 to 16 bytes completely.
constexpr NameKey key_of(std::string_view name) {
  const auto key = [&](auto read, size_t bytes) {
    return NameKey{read(name.data()), read(name.data() + name.size() - bytes), name.size()};
  };
  if (name.size() >= 8) return key(number_of<8>, 8);
  if (name.size() >= 4) return key(number_of<4>, 4);
  if (name.size() >= 2) return key(number_of<2>, 2);
  return NameKey{};
}

constexpr size_t slot_count = 256;

constexpr size_t slot_of(const NameKey& key) {
  const uint64_t all = (key.first | small_letters) * 3 + (key.last | small_letters) + key.size;
  return (all * 0x9e3779b97f4a7c15) >> 56;
}

// An entry's key, and the bits to ignore in a comparison because they only tell the case of a
// letter.
struct KeyedEntry {
  NameKey key, mask;
};

// The bits that tell the case of the letters in `number`, which are lower case.
constexpr uint64_t case_bits(uint64_t number) {
  uint64_t bits = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    const uint64_t c = number >> shift & 0xff;
    if (c >= 'a' && c <= 'z') bits |= uint64_t{0x20} << shift;
  }
  return bits;
}

constexpr size_t entry_count = std::size(entries);
using KeyedEntries = std::array<KeyedEntry, entry_count>;

constexpr KeyedEntries make_keyed_entries() {
  KeyedEntries made;
  for (size_t i = 0; i < entry_count; ++i) {
    const NameKey key = key_of(entries[i].name);
    made[i] = {key, {case_bits(key.first), case_bits(key.last), 0}};
  }
  return made;
}
constexpr KeyedEntries keyed_entries = make_keyed_entries();

// A hash table: indexes of entries, counted from 1, with linear probing; 0: the slot is empty.
using Slots = std::array<uint8_t, slot_count>;

constexpr Slots make_slots() {
  Slots made{};
  for (size_t i = 0; i < entry_count; ++i) {
    size_t at = slot_of(keyed_entries[i].key);
    while (made[at] != 0) at = (at + 1) % slot_count;
    made[at] = static_cast<uint8_t>(i + 1);
  }
  return made;
}
constexpr Slots slots = make_slots();

static_assert(std::endian::native == std::endian::little);
static_assert(entry_count < slot_count / 4 &&
              std::all_of(std::begin(entries), std::end(entries), [](const CommandEntry& entry) {
                return entry.name.size() >= 2 && entry.name.size() <= 16;
              }));

}  // namespace

std::span<const CommandEntry> command_entries() {
  return entries;
}

bool is_word(std::string_view word, std::string_view in_upper) {
  return word.size() == in_upper.size() && std::equal(word.begin(), word.end(), in_upper.begin(),
                                                      [](char c, char u) { return upper(c) == u; });
}

const CommandEntry* find_command(std::string_view name) {
  const NameKey key = key_of(name);
  for (size_t at = slot_of(key); slots[at] != 0; at = (at + 1) % slot_count) {
    const size_t place = slots[at] - size_t{1};
    const auto& [its, mask] = keyed_entries[place];
    if (its.size == name.size() && (key.first | mask.first) == its.first &&
        (key.last | mask.last) == its.last)
      return &entries[place];
  }
  return nullptr;
}

std::string refusal_of(std::span<const std::string_view> words) {
  for (const auto& [name, subcommand, instead] : refused) {
    if (!is_word(words[0], name)) continue;
    if (!subcommand.empty() && (words.size() < 2 || !is_word(words[1], subcommand))) continue;
    return "ERR " + std::string(name) + (subcommand.empty() ? "" : " ") + std::string(subcommand) +
           " is not supported; " + std::string(instead);
  }
  return {};
}

void append_info(const CommandEntry& entry, wire::RespWriter& out) {
  out.list(10);
  out.bulk(entry.name);
  out.integer(entry.arity);
  out.list(count_words(entry.flags));
  for_each_word(entry.flags, [&](std::string_view flag) { out.simple(flag); });
  out.integer(entry.first_key);
  out.integer(entry.last_key);
  out.integer(entry.key_step);
  out.list(count_words(entry.categories));
  for_each_word(entry.categories, [&](std::string_view name) { out.simple(name); });
  out.list(0);  // tips
  out.list(0);  // key specifications
  out.list(0);  // subcommands
}

void append_docs(const CommandEntry& entry, wire::RespWriter& out) {
  out.bulk(entry.name);
  out.map(4);
  out.bulk("summary");
  out.bulk(entry.summary);
  out.bulk("since");
  out.bulk(entry.since);
  out.bulk("group");
  out.bulk(entry.group);
  out.bulk("arguments");
  out.list(count_words(entry.arguments));
  for_each_word(entry.arguments, [&](std::string_view argument) {
    const bool optional = argument.ends_with('?');
    if (optional) argument.remove_suffix(1);
    const size_t colon = argument.find(':');
    out.map(optional ? 3 : 2);
    out.bulk("name");
    out.bulk(argument.substr(0, colon));
    out.bulk("type");
    out.bulk(argument.substr(colon + 1));
    if (!optional) return;
    out.bulk("flags");
    out.list(1);
    out.simple("optional");
  });
}

}  // namespace sluice::resp
