// Numbers for the labels of metrics, so that a cell is found without a look at a text: a bounded
// list of pairs of texts that only grows. What comes past the bound, and so could make the page of
// metrics grow without end, shares one number. Owned by the server; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::metrics {

struct Name {
  std::string name;   // by which sluice's own families tell it
  std::string label;  // by which Divvy's families and statsd do
};

class Names {
 public:
  static constexpr uint16_t others = 0;
  // A longer text is cut; what differs behind counts together.
  static constexpr size_t bytes_max = 200;

  // At most `max` names beside `others`, whose name is "(others)".
  explicit Names(size_t max);

  uint16_t intern(std::string_view name, std::string_view label);

  // Of 0 to size() - 1; the reference lives as long as this.
  const Name& at(uint16_t number) const;
  size_t size() const;
  // How often a text was refused because of the bound.
  uint64_t refused() const;

 private:
  const size_t max_;
  mutable std::mutex mutex_;
  std::deque<Name> names_;
  std::map<std::pair<std::string, std::string>, uint16_t> numbers_;
  uint64_t refused_ = 0;
};

}  // namespace sluice::metrics
