// The limits of Envoy's files as trees, one for each domain. They give the limit for a descriptor
// of a request, the key of its counter, and the name of its metrics. Built once by LimitSetBuilder,
// then immutable and read by all threads; finding a limit allocates nothing.
//
// A node of a tree is a rule for one entry of a descriptor. Its composite key is `KEY_VALUE`, or
// `KEY` if it has no value. Composite keys are compared as texts: key `a` with value `b_c` is the
// same rule as key `a_b` with value `c`.
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
#include "request/request.h"

namespace sluice::envoy {

// In place of the number of a node, a limit or a name: none.
inline constexpr uint32_t absent = UINT32_MAX;

// The most levels of rules. The builder refuses deeper ones.
inline constexpr size_t levels_max = 32;

// The numbers are those of RateLimit.unit in the protocol's messages.
enum class Unit : uint8_t { unknown, second, minute, hour, day, month, year, week };
// "MINUTE", as in messages and /rlconfig.
std::string_view name_of(Unit unit);
// The unit with that name, in lower or upper case; empty for `unknown` and other words.
std::optional<Unit> unit_named(std::string_view word);
// A month has 30 days, a year 365. 0 for Unit::unknown.
base::Duration length_of(Unit unit);
// SECOND, MINUTE, HOUR or DAY, if the window has that length; otherwise unknown.
Unit unit_of(base::Duration window);

struct Limit {
  uint32_t requests_per_unit = 0;  // 0: all requests are denied
  Unit unit = Unit::unknown;       // sent to clients; unknown if it is unlimited
  base::Duration window{};         // 0: unlimited
  limit::Calendar calendar{};      // as limit::Limit has it
  limit::Algorithm algorithm = limit::Algorithm::aligned_window;
  int64_t burst = 0;  // of a token_bucket, else 0
  // Does it have a `window`, `algorithm` or `burst`, which only sluice knows? Then a refused
  // request is charged only with `over: count`.
  bool extended = false;
  bool counts = false;  // a refused request is charged
  int64_t overdraft = limit::Overdrafts::none;
  bool unlimited = false;
  bool shadow_mode = false;
  bool quota_mode = false;
  bool detailed_metric = false;
  uint32_t name = absent;                         // LimitSet::name
  std::vector<uint32_t> replaces{};               // numbers of names, each once
  std::shared_ptr<const MetadataMap> metadata{};  // null: there is none
  uint32_t node = absent;
  uint32_t file = 0;  // LimitSet::file
  uint32_t line = 0;  // of the limit's descriptor, from 1
};

// The limit of the engine's rule.
limit::Limit numbers_of(const Limit& limit);

struct Node {
  std::string composite;     // the composite key; of a domain its name
  uint32_t key_bytes = 0;    // the size of the key at the beginning of `composite`
  uint32_t parent = absent;  // absent: the node is a domain
  uint32_t limit = absent;
  uint32_t children = 0;
  uint32_t level = 0;  // of a domain 0
  uint32_t file = 0;
  uint32_t line = 0;
  bool is_pattern = false;  // `composite` has a star
  bool share_threshold = false;
  bool value_to_metric = false;
  std::vector<uint32_t> patterns{};  // its children with stars, in the order of the files

  std::string_view key() const { return std::string_view(composite).substr(0, key_bytes); }
  bool has_value() const { return key_bytes < composite.size(); }
  // Does each value of the entry have a counter of its own?
  bool is_actor() const { return is_pattern ? !share_threshold : !has_value(); }
};

// How an entry of a request matched its node.
enum class MatchedBy : uint8_t {
  key_and_value,  // the composite key is the entry's `KEY_VALUE`
  pattern,        // the pattern matches the entry's `KEY_VALUE`
  key,            // the composite key is the entry's `KEY`
};

// The nodes that the entries of a descriptor matched, from the first entry on, and the limit that
// applies. A plain value.
struct Walk {
  struct Step {
    uint32_t node;
    MatchedBy by;
  };

  uint32_t limit = absent;
  uint32_t tried = 0;  // the number of patterns that were compared
  uint32_t size = 0;   // of `all`; fewer than the entries if one matched no node
  std::array<Step, levels_max> all;

  std::span<const Step> steps() const { return {all.data(), size}; }
};

using Entries = std::span<const request::Entry>;

class LimitSet {
 public:
  LimitSet();

  // The node of a domain; absent: no file has it.
  uint32_t domain(std::string_view name) const;

  // Finds the limit for a descriptor of a request. `domain`: the domain's node. If `steps` do not
  // suffice there is no limit, and MatchSteps::over is true.
  Walk find(uint32_t domain, Entries entries, policy::MatchSteps& steps) const;

  // The key of the descriptor's counter, without the prefix and the window: the domain, keys and
  // values, joined by `_`, and `ending`. If a node with share_threshold matched by its pattern, the
  // pattern replaces the value. For an override of the request `walk` must be empty.
  std::string_view key(uint32_t domain, Entries entries, const Walk& walk, base::Arena& arena,
                       std::string_view ending = {}) const;

  // The reverse: finds the entries, as views of `key`, of a descriptor with this limit whose
  // counter has this key. False: there are none, or keys of the path have stars. A value ends at
  // the first place where the next entry's key can begin.
  bool read_key(uint32_t limit, std::string_view key, std::vector<request::Entry>& entries) const;
  // The node of the limit's domain.
  uint32_t domain_of(uint32_t limit) const;

  // Appends the path of the metrics of the limit that `walk` has found. The nodes and the limit
  // determine which values of the request it contains.
  void append_metric_path(uint32_t domain, Entries entries, const Walk& walk,
                          std::string& to) const;
  // The same for an override of the request, with the keys and values of all entries.
  void append_override_metric_path(uint32_t domain, Entries entries, std::string& to) const;

  // Appends the node's domain and composite keys, joined by dots.
  void append_path(uint32_t node, std::string& to) const;
  std::string path(uint32_t node) const;

  // The lines of /rlconfig, one for each limit, in the files' order.
  std::string rlconfig() const;

  std::span<const Limit> limits() const { return limits_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const uint32_t> domains() const { return domains_; }
  // The file's name as the user gave it.
  std::string_view file(uint32_t number) const { return files_[number]; }
  std::string_view name(uint32_t number) const {
    return number == absent ? std::string_view() : std::string_view(names_[number]);
  }
  size_t names() const { return names_.size(); }
  // Does any limit replace others?
  bool replaces_any() const { return !replaced_names_.empty(); }
  // Is there a limit that replaces this one if both are found for a request? False for an unlimited
  // one.
  bool may_be_replaced(uint32_t limit) const;
  // Does limit `by` replace it?
  bool replaces(uint32_t by, uint32_t limit) const;

 private:
  friend class LimitSetBuilder;

  // A place in the table of all nodes, by the hash of the parent and the composite key.
  struct TableSlot {
    uint32_t tag = 0;  // further bits of the hash
    uint32_t node = absent;
  };

  uint32_t child(uint32_t parent, std::string_view composite) const;
  uint32_t child(uint32_t parent, std::string_view key, std::string_view value) const;
  template <class Same>
  uint32_t look_up(uint64_t hash, uint32_t parent, Same same) const;
  void append_detailed(Entries entries, const Walk& walk, std::string& to) const;
  // The text that replaces the entry's value if the node shares a counter; empty: it does not.
  std::string_view shared_value(const Walk::Step& step, const request::Entry& entry) const;

  std::vector<Node> nodes_;
  std::vector<TableSlot> places_;  // its size is a power of two; at most half of them are in use
  std::vector<Limit> limits_;
  std::vector<uint32_t> domains_;
  std::vector<std::string> files_, names_;
  std::vector<bool> replaced_names_;  // by their numbers
};

// Appends the text in the form for names of metrics: `:`, `|` and the dots of a text that looks
// like an IPv4 address become `_`.
void append_sanitized(std::string_view text, std::string& to);

// Does the pattern, in which `*` stands for any run of bytes, match `key` + `_` + `value`? If
// `steps` do not suffice it does not, and MatchSteps::over is true.
bool fits(std::string_view pattern, std::string_view key, std::string_view value,
          policy::MatchSteps& steps);

// Builds a set, file after file. Main thread, and the thread that reloads.
class LimitSetBuilder {
 public:
  uint32_t add_file(std::string name);
  uint32_t add_domain(std::string_view name, uint32_t file, uint32_t line);
  // The child with this composite key; absent: there is none.
  uint32_t find(uint32_t parent, std::string_view composite) const {
    return set_.child(parent, composite);
  }
  uint32_t domain(std::string_view name) const { return set_.domain(name); }
  // Adds a child. `parent` must have none with that composite key, and must not be deeper than
  // levels_max - 1. An empty `value` means none.
  uint32_t add(uint32_t parent, std::string_view key, std::string_view value, uint32_t file,
               uint32_t line);
  Node& node(uint32_t number) { return set_.nodes_[number]; }
  const LimitSet& set() const { return set_; }

  uint32_t name(std::string_view text);
  // Adds the limit of a node that has none. Returns the limit's number in the set.
  uint32_t add_limit(uint32_t node, Limit limit);

  // Returns the set; then the builder is empty.
  LimitSet take();

 private:
  uint32_t add_node(Node node);
  void place(uint32_t node);

  LimitSet set_;
  std::unordered_map<std::string, uint32_t> numbers_of_names_;
};

}  // namespace sluice::envoy
