// A Divvy server without its sockets: sessions, engine, rules and the embedded store, with a clock
// that only `sleep` moves. It also records each counter's last state. One thread, which may use one
// server at a time, because the clock is the thread's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "engine/engine.h"
#include "request/session.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "tests/conformance/vectors.h"

namespace sluice::tests {

// A store that passes all calls on to another one, and records the counters' states.
class WatchedStore final : public store::Store {
 public:
  explicit WatchedStore(store::Store& inner) : Store(inner.catalog(), nullptr), inner_(inner) {}
  store::Applied apply(const request::Batch& batch, base::Time now, store::CompletionQueue* port,
                       const store::Pin& pin, request::Ticket ticket) override;
  std::optional<base::Time> advance(store::CompletionQueue& port, base::Time now) override {
    return inner_.advance(port, now);
  }
  bool cancel(store::CompletionQueue& port, request::Ticket ticket, base::Time now) override {
    return inner_.cancel(port, ticket, now);
  }
  // The counters by their stored names, with the whole seconds that are left at `now`.
  Counters counters(base::Time now) const;

 private:
  struct Left {
    int64_t units;
    base::Time end;
  };
  store::Store& inner_;
  std::map<std::string, Left> left_;
};

class MemoryServer {
 public:
  // The rules of the file, or the native rules that `sluice init` makes of them.
  enum class Rules { of_file, native };
  // Throws if the policy is refused.
  MemoryServer(const std::string& file, const std::string& policy, Rules kind = Rules::of_file);

  void sleep(int64_t ms);
  Counters counters() { return watched_.counters(clock_.now()); }

 private:
  friend class MemoryConnection;
  request::Spaces spaces_;
  store::EmbeddedStore store_;
  WatchedStore watched_;
  base::Clock clock_;
  std::unique_ptr<live::Live> live_;
  std::unique_ptr<engine::Engine> engine_;
};

// A connection without its socket: it treats its input as server::Connection does.
class MemoryConnection {
 public:
  explicit MemoryConnection(MemoryServer& server);

  void send(std::string_view bytes);
  void half_close();
  // What the server has sent since the last call.
  std::string take();
  bool closed() const { return closed_; }

 private:
  void process();

  MemoryServer& server_;
  std::unique_ptr<request::Session> session_;
  std::string in_, out_;
  bool end_ = false, closed_ = false;
};

}  // namespace sluice::tests
