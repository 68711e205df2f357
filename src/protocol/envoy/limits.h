// The limits of Envoy's files as trees, one for each domain: which limit a descriptor of a request
// meets, the key of its counter, and the name of its metrics. Built once by LimitSetBuilder, then
// immutable and read by all threads; finding a limit allocates nothing.
//
// A node of a tree is a rule for one entry of a descriptor. Its composite key is `KEY_VALUE`, or
// `KEY` where it has no value. Composite keys are compared as texts: key `a` with value `b_c` is
// the same rule as key `a_b` with value `c`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/arena.h"
#include "base/time.h"
#include "limit/limit.h"
#include "policy/match_steps.h"
#include "protocol/envoy/metadata_value.h"
#include "request/charge.h"

namespace sluice::envoy {

// In place of the number of a node, a limit or a name: there is none.
inline constexpr uint32_t absent = UINT32_MAX;

// Rules below each other. Past it: refused by the builder.
inline constexpr size_t levels_max = 32;

// The numbers are those of RateLimit.unit in the protocol's messages.
enum class Unit : uint8_t { unknown, second, minute, hour, day, month, year, week };
// "MINUTE", as messages and /rlconfig spell it.
std::string_view name_of(Unit unit);
// In small or capital letters; `unknown` and other words are none.
std::optional<Unit> unit_named(std::string_view word);
// A month has 30 days, a year 365. 0: of Unit::unknown.
base::Duration length_of(Unit unit);
// The one of SECOND, MINUTE, HOUR and DAY that is this long, else unknown.
Unit unit_of(base::Duration window);

struct Limit {
  uint32_t requests_per_unit = 0;  // 0: all is denied
  Unit unit = Unit::unknown;       // told to clients; of an unlimited one unknown
  base::Duration window{};         // 0: unlimited
  limit::Algorithm algorithm = limit::Algorithm::aligned_window;
  int64_t burst = 0;  // of a token_bucket, else 0
  // Has it a `window`, `algorithm` or `burst`, which only sluice knows? Then a refused request is
  // not charged.
  bool extended = false;
  bool unlimited = false;
  bool shadow_mode = false;
  bool quota_mode = false;
  bool detailed_metric = false;
  uint32_t name = absent;                         // LimitSet::name
  std::vector<uint32_t> replaces{};               // names; each once
  std::shared_ptr<const MetadataMap> metadata{};  // null: there is none
  uint32_t node = absent;
  uint32_t file = 0;  // LimitSet::file
  uint32_t line = 0;  // of its descriptor, from 1
};

// What the engine's rule of this limit has.
limit::Limit numbers_of(const Limit& limit);

struct Node {
  std::string composite;     // of a domain: its name
  uint32_t key_bytes = 0;    // of `composite` at its beginning
  uint32_t parent = absent;  // absent: it is a domain
  uint32_t limit = absent;
  uint32_t children = 0;
  uint32_t level = 0;  // of a domain 0
  uint32_t file = 0;
  uint32_t line = 0;
  bool is_pattern = false;  // there is a star in `composite`
  bool share_threshold = false;
  bool value_to_metric = false;
  std::vector<uint32_t> patterns{};  // of its children, those with stars, in the files' order

  std::string_view key() const { return std::string_view(composite).substr(0, key_bytes); }
  bool has_value() const { return key_bytes < composite.size(); }
  // Does each value that it is met by have a counter of its own?
  bool is_actor() const { return is_pattern ? !share_threshold : !has_value(); }
};

// How an entry of a request met its node.
enum class MatchedBy : uint8_t {
  key_and_value,  // the composite key is the entry's `KEY_VALUE`
  pattern,        // its `KEY_VALUE` fits
  key,            // the composite key is the entry's `KEY`
};

// The nodes that the entries of one descriptor met, from the first entry on, and the limit that
// holds. A plain value.
struct Walk {
  struct Step {
    uint32_t node;
    MatchedBy by;
  };

  uint32_t limit = absent;
  uint32_t tried = 0;  // patterns, whether they fit or not
  uint32_t size = 0;   // of `all`; less than there are entries where one met no node
  std::array<Step, levels_max> all;

  std::span<const Step> steps() const { return {all.data(), size}; }
};

using Entries = std::span<const request::Entry>;

class LimitSet {
 public:
  LimitSet();

  // The node of a domain; absent: no file has it.
  uint32_t domain(std::string_view name) const;

  // The limit that a descriptor of a request for this domain (a domain's node) meets. Where `steps`
  // do not suffice: none, and they are over.
  Walk find(uint32_t domain, Entries entries, policy::MatchSteps& steps) const;

  // The key of the descriptor's counter without the prefix and the window: the domain, keys and
  // values joined by `_`, with `ending` behind. What a node with share_threshold caught by its
  // pattern has the pattern in place of the value. For an override of the request `walk` is
  // empty.
  std::string_view key(uint32_t domain, Entries entries, const Walk& walk, base::Arena& arena,
                       std::string_view ending = {}) const;

  // The other way: the entries of a descriptor that could meet this limit and have a counter with
  // this key, which they are views of; false: none could, or keys of the path have stars. A value
  // ends where the next entry's key can begin first.
  bool read_key(uint32_t limit, std::string_view key, std::vector<request::Entry>& entries) const;
  // The node of the limit's domain.
  uint32_t domain_of(uint32_t limit) const;

  // Appends the path of the limit's metrics, of which `walk` has found one. Which values of the
  // request it holds is said by the nodes and the limit.
  void append_metric_path(uint32_t domain, Entries entries, const Walk& walk,
                          std::string& to) const;
  // The same for an override of the request: keys and values of all entries.
  void append_override_metric_path(uint32_t domain, Entries entries, std::string& to) const;

  // Appends the node's domain and composite keys, joined by dots.
  void append_path(uint32_t node, std::string& to) const;
  std::string path(uint32_t node) const;

  // The lines of /rlconfig, one for each limit, in the files' order.
  std::string rlconfig() const;

  std::span<const Limit> limits() const { return limits_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const uint32_t> domains() const { return domains_; }
  // As the user named it.
  std::string_view file(uint32_t number) const { return files_[number]; }
  std::string_view name(uint32_t number) const {
    return number == absent ? std::string_view() : std::string_view(names_[number]);
  }
  size_t names() const { return names_.size(); }
  // Is there a limit that replaces others?
  bool replaces_any() const { return !replaced_names_.empty(); }
  // Does any limit replace this one where both are found for one request? Not an unlimited one.
  bool may_be_replaced(uint32_t limit) const;
  // Does limit `by` do so?
  bool replaces(uint32_t by, uint32_t limit) const;

 private:
  friend class LimitSetBuilder;

  // A place of the table of all nodes, found by the hash of the parent and the composite key.
  struct Place {
    uint32_t tag = 0;  // other bits of the hash
    uint32_t node = absent;
  };

  uint32_t child(uint32_t parent, std::string_view composite) const;
  uint32_t child(uint32_t parent, std::string_view key, std::string_view value) const;
  template <class Same>
  uint32_t look_up(uint64_t hash, uint32_t parent, Same same) const;
  void append_detailed(Entries entries, const Walk& walk, std::string& to) const;
  // What stands for the entry's value where its node shares one counter; empty: it does not.
  std::string_view shared_value(const Walk::Step& step, const request::Entry& entry) const;

  std::vector<Node> nodes_;
  std::vector<Place> places_;  // a power of two, at most half of them used
  std::vector<Limit> limits_;
  std::vector<uint32_t> domains_;
  std::vector<std::string> files_, names_;
  std::vector<bool> replaced_names_;  // by their numbers
};

// Appends the text as names of metrics can have it: `:` and `|`, and the dots of what looks like an
// IPv4 address, become `_`.
void append_sanitized(std::string_view text, std::string& to);

// Does `key` + `_` + `value` fit the pattern, in which `*` stands for any run of bytes? Where
// `steps` do not suffice: no, and they are over.
bool fits(std::string_view pattern, std::string_view key, std::string_view value,
          policy::MatchSteps& steps);

// Makes a set, file after file. Main thread, and the thread that reloads.
class LimitSetBuilder {
 public:
  uint32_t add_file(std::string name);
  uint32_t add_domain(std::string_view name, uint32_t file, uint32_t line);
  // The child with this composite key; absent: there is none.
  uint32_t find(uint32_t parent, std::string_view composite) const {
    return set_.child(parent, composite);
  }
  uint32_t domain(std::string_view name) const { return set_.domain(name); }
  // `parent` has no child with that composite key, and is not deeper than levels_max - 1. An empty
  // value is none.
  uint32_t add(uint32_t parent, std::string_view key, std::string_view value, uint32_t file,
               uint32_t line);
  Node& node(uint32_t number) { return set_.nodes_[number]; }
  const LimitSet& set() const { return set_; }

  uint32_t name(std::string_view text);
  // The node has none yet. Its number in the set.
  uint32_t add_limit(uint32_t node, Limit limit);

  // Afterwards the builder is empty.
  LimitSet take();

 private:
  uint32_t add_node(Node node);
  void place(uint32_t node);

  LimitSet set_;
  std::unordered_map<std::string, uint32_t> numbers_of_names_;
};

}  // namespace sluice::envoy
