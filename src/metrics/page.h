// What a scrape collects: families of samples, written in Prometheus' text format. Filled by
// sources, each of which knows its own numbers; made for one scrape, used by its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Page {
 public:
  Page();
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  // One sample of a family, which is there from its first one on. Sources may share a family if
  // their labels differ.
  void counter(std::string_view family, std::string_view help, double value, Labels labels = {});
  void gauge(std::string_view family, std::string_view help, double value, Labels labels = {});
  // counts: of each bucket alone, with one more than there are bounds. `per_unit` of what
  // bounds and sum count are one of the family's unit: 1e6 of microseconds, for seconds.
  void histogram(std::string_view family, std::string_view help, std::span<const uint64_t> bounds,
                 std::span<const uint64_t> counts, uint64_t sum, double per_unit,
                 Labels labels = {});

  std::string text() const;
  static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

// The source of numbers: the server, a store, a sender.
class Source {
 public:
  virtual ~Source() = default;
  // Any thread; adds what the source knows now, in milliseconds at most, and does not throw.
  virtual void collect(Page& page) const = 0;
};

// The sources of one process. Any thread.
class Sources {
 public:
  // `source` outlives this, or is removed before it goes.
  void add(const Source& source);
  void remove(const Source& source);
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::vector<const Source*> all_;
};

}  // namespace sluice::metrics
