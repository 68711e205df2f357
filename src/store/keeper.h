// Small texts that are kept beside the counters, by name: what people set while the server runs
// (overrides). Owned by main; every call but `watch` blocks and is for threads that may, one at a
// time. A server without one forgets them at exit.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::store {

class Keeper {
 public:
  struct Change {
    std::string name;
    std::optional<std::string> text;  // nothing: it is kept no longer
  };
  using Changed = std::function<void(std::span<const Change> changes)>;

  virtual ~Keeper() = default;

  // Visits all that is kept. False: `problem`, with what to do.
  virtual bool read(const std::function<void(std::string_view name, std::string_view text)>& visit,
                    std::string& problem) = 0;

  // All of it or nothing; returns when it is kept as safely as the store's commits are. False:
  // `problem`; nothing was changed.
  virtual bool write(std::span<const Change> changes, std::string& problem) = 0;

  // From here on `changed` is called with what other servers that share the store write, at most
  // 50 ms later, on a thread of the keeper's; until the keeper is gone. Once, after `read`.
  virtual void watch(Changed /*changed*/) {}
};

}  // namespace sluice::store
