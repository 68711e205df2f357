// What listeners can speak. Each protocol is a folder below this one with a `description` of
// itself, and a line in protocol/list.def; nothing else in the program names a protocol. All here
// is constant from the start on; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "policy/dialect.h"
#include "protocol/command.h"
#include "request/peer.h"
#include "request/session.h"
#include "request/space.h"

namespace sluice::policy {
class RuleSet;
}

namespace sluice::protocol {

struct PolicyFormat;    // protocol/policy_files.h
struct SettingsFormat;  // protocol/settings.h
struct StoreTools;      // protocol/store_tools.h
class Settings;         // protocol/settings.h

// A protocol's number: its place in the list, from 0.
enum class Protocol : uint8_t {};

// The longest list that arrays by protocol have room for; protocol/all.cc asserts it.
inline constexpr size_t protocols_max = 16;

struct Metrics;

struct Description {
  std::string_view name;         // in configuration, metrics and answers
  std::string_view title;        // within a sentence
  uint16_t port;                 // where it is served by default
  std::string_view host = "::";  // as is this: an address
  std::unique_ptr<request::Session> (*make_session)(const request::Peer& peer);
  // Of what its sessions on one worker share (request::Peer::worker); null: nothing.
  std::unique_ptr<request::WorkerState> (*make_worker_state)() = nullptr;
  bool authenticates = false;  // its clients may, as one of the server's users
  bool takes_strict = false;   // its sessions go by Peer::strict
  bool wants_address = false;  // its sessions tell clients by their addresses (Peer::address)
  // How long the client's last bytes are read once the last reply is sent, before the close.
  std::chrono::milliseconds linger{500};
  // Of the rules that see its requests alone; null: only native rules see its requests.
  const policy::Dialect* dialect = nullptr;
  // What it is counted by beside sluice's own families (protocol/metrics.h); null: nothing.
  const Metrics* metrics = nullptr;
  // `sluice ask` in its words; null: it cannot be asked from the command line.
  const Ask* ask = nullptr;
  // Its drop-in server and its tools.
  std::span<const Command> commands{};
  // Policies in files of its own; null: there are none.
  const PolicyFormat* policy = nullptr;
  // Appends the rules that are there without any file; null: its requests need a policy.
  // `settings`: the protocol's own; null: the defaults.
  void (*add_rules)(const Settings* settings, request::Spaces& spaces,
                    policy::RuleSet& rules) = nullptr;
  // Settings of its own; null: there are none.
  const SettingsFormat* settings = nullptr;
  // What it brings to `sluice store`; null: nothing.
  const StoreTools* store = nullptr;
  // How its keys in Redis begin, if other servers of it use the same ones; else empty.
  std::string_view redis_prefix{};
};

// All protocols, in the order of protocol/list.def; never empty.
std::span<const Description* const> all();
// Of a protocol of that list.
const Description& describe(Protocol protocol);
// Nothing: the list has no such name.
std::optional<Protocol> find(std::string_view name);
// Of a description in that list.
Protocol number_of(const Description& description);

// Their numbers, in that order.
std::span<const Protocol> numbers();
// The names in that order, with `before_last` between the last two: "divvy, limitd or droplet".
std::string joined_names(std::string_view before_last = ", ");

// The dialects of all protocols, in that order; and one of these or the native one by its name,
// null: there is none.
std::span<const policy::Dialect* const> dialects();
const policy::Dialect* find_dialect(std::string_view name);
// The names of the protocols whose requests bring limits along (Dialect::brings_limits).
std::string names_bringing_limits();

std::string_view name_of(Protocol protocol);
std::unique_ptr<request::Session> make_session(Protocol protocol, const request::Peer& peer = {});
// Null: it has none.
const policy::Dialect* dialect_of(Protocol protocol);
// How long the client's last bytes are waited for once everything is said.
std::chrono::milliseconds linger_of(Protocol protocol);

}  // namespace sluice::protocol
