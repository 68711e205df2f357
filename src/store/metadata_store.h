// Small texts by name that are stored beside the counters: what operators set while the server runs
// (overrides). Owned by main. Every call except `watch` blocks, and only one thread may call at a
// time. A server without such a store loses the texts at exit.
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

#include "base/result.h"

namespace sluice::store {

class MetadataStore {
 public:
  struct Change {
    std::string name;
    std::optional<std::string> text;  // nothing: the text is removed
    // In a shared store: the change is made only if the stored text is still this one.
    std::optional<std::string> only_if = {};
  };
  enum class Written : uint8_t {
    yes,
    no,     // nothing was changed
    maybe,  // unknown; the problem says what that means
  };
  struct [[nodiscard]] WriteResult {
    Written written = Written::yes;
    base::Problem problem = {};  // why it is not `yes`

    explicit operator bool() const { return written == Written::yes; }
  };

  // Receives the changes that other servers make in a shared store.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // Called on a thread of the store, with `order` held.
    virtual void changed(std::span<const Change> changes) = 0;
    // Held while changes are fetched and delivered, and by a writer of this server from the write
    // until it has applied it. So an older change is never delivered after a newer one.
    std::mutex order;
  };

  virtual ~MetadataStore() = default;

  // Visits all stored texts.
  virtual base::Done read(
      const std::function<void(std::string_view name, std::string_view text)>& visit) = 0;

  // Makes all changes or none; returns once they are as durable as the store's commits.
  virtual WriteResult write(std::span<const Change> changes) = 0;

  // Do other servers read and write the same texts?
  virtual bool is_shared() const { return false; }

  // From here on, until the store is destroyed, `watcher` receives the changes that other servers
  // make, at most 50 ms later. Called once, after `read`.
  virtual void watch(std::shared_ptr<Watcher> /*watcher*/) {}
};

}  // namespace sluice::store
