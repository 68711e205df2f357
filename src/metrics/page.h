// What a scrape collects: families of samples, written in Prometheus' text format (version 0.0.4 of
// its exposition formats), or by what is derived from it in another. Filled by sources, each of
// which has its own numbers; made for one scrape, used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::metrics {

// Numbers for the labels of metrics, so that a cell is found without a look at a text: a bounded
// list of pairs of texts that only grows. What comes past the bound, and so could make the page of
// metrics grow without end, shares one number. Owned by the server; any thread.

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

using Labels = std::vector<std::pair<std::string, std::string>>;

class Page {
 public:
  Page() = default;
  virtual ~Page() = default;
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  // One sample of a family, which is there from its first one on. Sources may share a family if
  // their labels differ.
  virtual void counter(std::string_view family, std::string_view help, double value,
                       const Labels& labels = {});
  virtual void gauge(std::string_view family, std::string_view help, double value,
                     const Labels& labels = {});
  // counts: of each bucket alone, with one more than there are bounds. `per_unit` of what
  // bounds and sum count are one of the family's unit: 1e6 of microseconds, for seconds.
  virtual void histogram(std::string_view family, std::string_view help,
                         std::span<const uint64_t> bounds, std::span<const uint64_t> counts,
                         uint64_t sum, double per_unit, const Labels& labels = {});

  std::string text() const;
  static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

 private:
  // The text of a family's lines so far; a first one of its name gets its head.
  std::string& lines_of(std::string_view family, std::string_view help, std::string_view type);

  std::deque<std::string> texts_;  // of the families, in their order
  std::map<std::string, std::string*, std::less<>> by_name_;
};

// The source of numbers: the server, a store, a sender.
class Source {
 public:
  virtual ~Source() = default;
  // Any thread; adds the present numbers, in milliseconds at most, and does not throw.
  virtual void collect(Page& page) const = 0;
};

// The sources of one process. Any thread.
class Sources {
 public:
  // `source` outlives this, or is removed before its end.
  void add(const Source& source);
  void remove(const Source& source);
  void collect(Page& page) const;
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::vector<const Source*> all_;
};

}  // namespace sluice::metrics
