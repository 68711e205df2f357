// For tests: the client's core over sockets and a clock that the test moves. Nothing waits, and
// what the core asks for is recorded.
#pragma once

#include <sluice/client.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "client/core.h"

namespace sluice::calls {

class ClientWorld {
 public:
  struct Try {
    uint32_t link;
    int64_t ms;  // since the world began
    friend bool operator==(const Try&, const Try&) = default;
  };
  static constexpr base::Time begun{base::seconds(1'000).us};

  explicit ClientWorld(const Dialect& dialect, size_t hosts = 1, client_options given = {},
                       uint64_t seed = 0)
      : ClientWorld(dialect, make_hosts(hosts), std::move(given), seed) {}
  ClientWorld(const Dialect& dialect, std::vector<Target> hosts, client_options given,
              uint64_t seed = 0)
      : options(std::move(given)), core(dialect, std::move(hosts), options, begun, seed) {
    settle();
  }

  static std::vector<Target> make_hosts(size_t count) {
    std::vector<Target> hosts;
    for (size_t i = 1; i <= count; ++i) {
      Target& host = hosts.emplace_back();
      host.host = "10.0.0." + std::to_string(i);
      host.port = 9231;
      host.name = host.host + ":9231";
    }
    return hosts;
  }

  client_call_id submit(const client_request& request, const std::string& name = "",
                        const client_call_options& call = {}) {
    const client_call_id id = core.submit(
        request,
        [this, name](client_result&& result) {
          ++ended[name];
          results[name] = std::move(result);
        },
        call, now);
    settle();
    return id;
  }
  bool cancel(client_call_id id) {
    const bool done = core.cancel(id, now);
    settle();
    return done;
  }

  // The link's socket is connected.
  void accept(uint32_t link) {
    core.on_connected(link, now);
    settle();
  }
  void fail(uint32_t link, std::string text = "refused") {
    core.on_failed(link, std::move(text), now);
    settle();
  }
  void receive(uint32_t link, std::string_view bytes) {
    std::memcpy(core.read_room(link, bytes.size()), bytes.data(), bytes.size());
    core.on_read(link, bytes.size(), now);
    settle();
  }
  // The link's socket becomes writable, and takes so many bytes more.
  void drain(uint32_t link, size_t bytes) {
    socket_room = bytes;
    write(link);
    settle();
  }
  // Moves the clock, and handles everything that is due until then. Tries fail at once if
  // `refuses`.
  void advance(base::Duration length) {
    const base::Time end{now.us + length.us};
    while (core.next_time() <= end) {
      now = std::max(now, core.next_time());
      core.tick(now);
      settle();
    }
    now = end;
  }
  int64_t ms() const { return (now.us - begun.us) / 1'000; }
  std::string take_sent(uint32_t link) { return std::exchange(sent[link], {}); }

  // Does what the core asks for, and delivers results.
  void settle() {
    while (!core.actions().empty() || !core.completed().empty() || !core.reports().empty()) {
      for (const Core::Action& action : std::exchange(core.actions(), {})) act(action);
      for (client_connection_report& report : std::exchange(core.reports(), {}))
        options.on_connection(report);
      for (Core::Completed& done : std::exchange(core.completed(), {}))
        done.handler(std::move(done.result));
    }
  }

  client_options options;
  base::Time now = begun;
  Core core;
  bool refuses = false;
  size_t socket_room = SIZE_MAX;  // how many bytes the sockets still take
  std::vector<Try> tries;
  std::map<uint32_t, std::string> sent;  // by link, since it connected
  std::map<uint32_t, int> closed;
  std::map<std::string, int> ended;  // calls, by name
  std::map<std::string, client_result> results;

 private:
  void write(uint32_t link) {
    const std::string_view bytes = core.output(link).substr(0, socket_room);
    if (socket_room != SIZE_MAX) socket_room -= bytes.size();
    sent[link] += bytes;
    core.on_written(link, bytes.size(), now);
  }
  void act(const Core::Action& action) {
    switch (action.kind) {
      case Core::Action::Kind::connect:
        tries.push_back({action.link, ms()});
        sent[action.link].clear();
        if (refuses) core.on_failed(action.link, "refused", now);
        break;
      case Core::Action::Kind::close:
        ++closed[action.link];
        sent[action.link].clear();
        break;
      case Core::Action::Kind::write: {
        write(action.link);
      }
    }
  }
};

}  // namespace sluice::calls
