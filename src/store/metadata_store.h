// Small texts that are kept beside the counters, by name: what people set while the server runs
// (overrides). Owned by main; every call but `watch` blocks and is for threads that may, one at a
// time. A server without one forgets them at exit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::store {

class MetadataStore {
 public:
  struct Change {
    std::string name;
    std::optional<std::string> text;  // nothing: it is kept no longer
    // Where the store is shared: left alone if something else is kept by now.
    std::optional<std::string> only_if = {};
  };
  enum class Written : uint8_t {
    yes,
    no,     // nothing was changed
    maybe,  // unknown; `problem` says what follows
  };

  // Receives what other servers that share the store write.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // With `order` held, on a thread of the store's.
    virtual void changed(std::span<const Change> changes) = 0;
    // Held while changes are fetched and delivered, and by a writer here until it has taken in
    // what it wrote: so nothing older is delivered after something newer.
    std::mutex order;
  };

  virtual ~MetadataStore() = default;

  // Visits all that is kept. False: `problem`, with what to do.
  virtual bool read(const std::function<void(std::string_view name, std::string_view text)>& visit,
                    std::string& problem) = 0;

  // All of it or nothing; returns when it is kept as safely as the store's commits are. Unless
  // `yes`: `problem`.
  virtual Written write(std::span<const Change> changes, std::string& problem) = 0;

  // Do other servers read and write the same texts?
  virtual bool is_shared() const { return false; }

  // From here on `watcher` receives what other servers that share the store write, at most 50 ms
  // later; until the store is gone. Once, after `read`.
  virtual void watch(std::shared_ptr<Watcher> /*watcher*/) {}
};

}  // namespace sluice::store
