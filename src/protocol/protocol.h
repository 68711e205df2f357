// The protocols that listeners can speak. Each protocol is a folder below this one, with a
// `description`, and a line in protocol/list.def; no other code in the program names a protocol.
// Everything is constant from the start on; any thread.
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

// Of a protocol that speaks HTTP/2 and HTTP/1.1.
inline constexpr std::string_view alpn_of_http = "\x02h2\x08http/1.1";

struct PolicyFormat;    // protocol/policy_files.h
struct SettingsFormat;  // protocol/settings.h
struct StoreTools;      // protocol/store_tools.h
class Settings;         // protocol/settings.h

// A protocol's number: its index in the list.
enum class Protocol : uint8_t {};

// The most protocols for which arrays by protocol have room; protocol/all.cc asserts it.
inline constexpr size_t protocols_max = 16;

struct Metrics;

struct Description {
  std::string_view name;         // in configuration, metrics and answers
  std::string_view title;        // the name within a sentence
  uint16_t port;                 // the default port
  std::string_view host = "::";  // the default address
  std::unique_ptr<request::Session> (*make_session)(const request::Peer& peer);
  // Makes the state that its sessions on one worker share (request::Peer::worker); null: none.
  std::unique_ptr<request::WorkerState> (*make_worker_state)() = nullptr;
  bool authenticates = false;  // its clients may authenticate as one of the server's users
  bool takes_strict = false;   // its sessions use Peer::strict
  bool wants_address = false;  // its sessions use Peer::address
  bool tags_are_ids = false;   // Request::tag is the client's name for it, which log lines show
  // What its clients may choose by ALPN (net/tls.h); empty: nothing.
  std::string_view alpn = {};
  // How long the client's last bytes are read after the last reply was sent, before the close.
  std::chrono::milliseconds linger{500};
  // The dialect of rules that apply to its requests only; null: only native rules apply to them.
  const policy::Dialect* dialect = nullptr;
  // Its own metrics beside sluice's (protocol/metrics.h); null: none.
  const Metrics* metrics = nullptr;
  // Its part of `sluice ask`; null: it has none.
  const Ask* ask = nullptr;
  // Its drop-in server and its tools.
  std::span<const Command> commands{};
  // The format of its own policy files; null: it has none.
  const PolicyFormat* policy = nullptr;
  // Appends the rules that exist without a file; null: its requests need a policy. `settings`: the
  // protocol's own settings; null: the defaults.
  void (*add_rules)(const Settings* settings, request::Spaces& spaces,
                    policy::RuleSet& rules) = nullptr;
  // The format of its own settings; null: it has none.
  const SettingsFormat* settings = nullptr;
  // Its tools of `sluice store`; null: none.
  const StoreTools* store = nullptr;
  // The beginning of its keys in Redis, if other programs use the same keys; otherwise empty.
  std::string_view redis_prefix{};
};

// All protocols, in the order of protocol/list.def; never empty.
std::span<const Description* const> all();
// The description of a protocol of that list.
const Description& describe(Protocol protocol);
// The protocol with that name; empty: there is none.
std::optional<Protocol> find(std::string_view name);
// The number of a description in that list.
Protocol number_of(const Description& description);

// The numbers of all protocols, in that order.
std::span<const Protocol> numbers();
// The names in that order, with `before_last` between the last two: "divvy, limitd or droplet".
std::string joined_names(std::string_view before_last = ", ");

// The dialects of all protocols, in that order. And the dialect with that name, which may be the
// native one; null: there is none.
std::span<const policy::Dialect* const> dialects();
const policy::Dialect* find_dialect(std::string_view name);
// The names of the protocols whose requests bring limits (Dialect::brings_limits).
std::string names_bringing_limits();

std::string_view name_of(Protocol protocol);
std::unique_ptr<request::Session> make_session(Protocol protocol, const request::Peer& peer = {});
// The protocol's dialect; null: it has none.
const policy::Dialect* dialect_of(Protocol protocol);
// Description::linger.
std::chrono::milliseconds linger_of(Protocol protocol);

}  // namespace sluice::protocol
