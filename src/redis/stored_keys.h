// Which keys of a single Redis are counters of this server, what they are called in a Redis Cluster
// and which of two values of one counter has more used. Pure; for `sluice store import-redis`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "request/charge.h"
#include "request/space_index.h"

namespace sluice::redis {

// Counters of rules. What a rule's space says holds for all of them, but some keys end differently.
struct KeyFamily {
  enum class Ending : uint8_t {
    suffix,      // of the space
    algorithms,  // `:` and the names of the algorithms that came with the request
    numbers,     // of the space, or the quota and the seconds of an override: `:Q:S`
  };
  const request::Space* space;  // outlives what is made of it
  Ending ending = Ending::suffix;
};

// How a value is written (docs/redis.md).
enum class ValueForm : uint8_t { own, remaining, tat, window };

// What Redis has under a key at a moment.
struct StoredValue {
  std::string text;        // of a string
  int64_t expires_ms = 0;  // since 1970; no_end: it has no TTL
};
inline constexpr int64_t no_end = -1;

class StoredKeys {
 public:
  StoredKeys(std::span<const KeyFamily> families, std::string key_prefix);

  const std::string& key_prefix() const { return key_prefix_; }

  // By its name: could it be a counter?
  bool may_be_counter(std::string_view name) const;

  struct Counter {
    ValueForm form;
    std::string name;  // in a cluster
  };
  // Nothing: it is another program's, or of no rule. Of names that others share the value decides
  // as well: a plain number whose TTL fits what the name or the number says.
  std::optional<Counter> find(std::string_view name, const StoredValue& value,
                              base::Time now) const;

 private:
  std::optional<Counter> find_own(std::string_view name, std::string_view text) const;
  bool is_remaining(std::string_view name) const;
  bool is_window(std::string_view name, const StoredValue& value, base::Time now) const;

  const std::string key_prefix_;
  request::SpaceIndex own_, remaining_;  // views of the families' spaces
  std::vector<std::string> by_request_;  // prefixes of spaces whose keys end with algorithms
  std::vector<std::string> by_numbers_;  // prefixes of those that may end with numbers
  std::vector<std::string> windows_;     // what names of windows begin with
  bool shares_tats_ = false;
};

// The value that a counter has when neither `stored` nor `other` may lose a unit that is used, if
// that is not `stored` itself. Of two states of one limit that is the one that ends later, and of
// two that end together the one with more units. Values of different limits are taken as a whole.
// Nothing: `stored` stays, also where one of them cannot be read.
std::optional<StoredValue> more_used(ValueForm form, const StoredValue& stored,
                                     const StoredValue& other);

}  // namespace sluice::redis
