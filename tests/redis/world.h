// The real server with divvy, limitd, droplet and an admin port, whose counters are in a Redis of
// the test. It must end before the thread that made it.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/limitd_listed.h"
#include "tests/support/redis_server.h"

namespace sluice::tests {

inline TcpClient connected(uint16_t port) {
  auto client = TcpClient::connect(port);
  if (!client) throw std::runtime_error("refused");
  return std::move(*client);
}

class RedisWorld {
 public:
  struct Options {
    std::string rules = {};  // the end of sluice.yaml
    std::string redis = {};  // more keys of store.redis
    std::string store = {};  // more keys of store
    std::map<std::string, std::string> environment = {};
    bool connects = true;  // the constructor waits until the server is connected to Redis
  };

  explicit RedisWorld(uint16_t redis_port, const std::string& rules = "",
                      const std::string& redis = "", const std::string& store = "")
      : RedisWorld({"127.0.0.1:" + std::to_string(redis_port)},
                   {.rules = rules, .redis = redis, .store = store}) {}

  RedisWorld(const std::vector<std::string>& nodes, const Options& options) {
    std::string all;
    for (const std::string& node : nodes) all += (all.empty() ? "\"" : ", \"") + node + "\"";
    folder_.write("rules.ini", "[default]\ncreditLimit = 1000\nresetSeconds = 600\n");
    folder_.write(
        "limitd.yaml",
        "db: { inMemory: true }\nbuckets:\n  fixed:\n    size: 3\n"
        "  fast:\n    size: 2\n    per_second: 10\n  slow:\n    size: 2\n    per_second: 1\n" +
            listed_types);
    before_rules_ =
        "listen:\n"
        "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
        "  - { protocol: limitd, address: \"127.0.0.1:0\" }\n"
        "  - { protocol: droplet, address: \"127.0.0.1:0\" }\n"
        "workers: 2\n"
        "store: { redis: { nodes: [" +
        all + "]" + options.redis + " }" + options.store + " }\n" +
        "policy:\n  - divvy: rules.ini\n  - limitd: limitd.yaml\n";
    const std::string config = write_rules(options.rules);
    process_ = std::make_unique<Process>(Process::Options{
        .arguments = {"serve", "--config", config, "--log-level", "info", "--admin", "127.0.0.1:0"},
        .environment = options.environment});
    divvy_ = await_listening(*process_, "divvy");
    limitd_ = await_listening(*process_, "limitd");
    droplet_ = await_listening(*process_, "droplet");
    admin_ = await_listening(*process_, "admin");
    if (options.connects) process_->says(": connected");
  }

  // Writes sluice.yaml with these rules, for a reload. Returns its path.
  std::string write_rules(const std::string& rules) const {
    return folder_.write("sluice.yaml", before_rules_ + rules);
  }
  std::string hit(const std::string& line = "") { return connected(divvy_).ask("HIT " + line); }
  // Sends HIT until the reply begins with `head`. Empty if it did in time, else the last reply.
  std::string await_hit(const std::string& line, const std::string& head,
                        Deadline deadline = soon()) {
    for (;;) {
      const std::string reply = hit(line);
      if (reply.starts_with(head)) return "";
      if (std::chrono::steady_clock::now() > deadline) return reply;
      std::this_thread::sleep_for(Milliseconds(20));
    }
  }
  LimitdClient limitd() { return LimitdClient(connected(limitd_)); }
  DropletLeft drop(const DropletTake& take) { return DropletClient(droplet_).ask(take); }
  std::string metric(const std::string& name) const { return sample(admin_, name); }
  // Waits until the metric has that value. Empty if it had in time, else the name and the last
  // value.
  std::string await_metric(const std::string& name, const std::string& value,
                           Deadline deadline = soon()) const {
    for (;;) {
      const std::string got = metric(name);
      if (got == value) return "";
      if (std::chrono::steady_clock::now() > deadline) return name + " " + got;
      std::this_thread::sleep_for(Milliseconds(20));
    }
  }
  const Folder& folder() const { return folder_; }
  uint16_t divvy_port() const { return divvy_; }
  uint16_t admin_port() const { return admin_; }
  Process& process() { return *process_; }

 private:
  Folder folder_;
  std::string before_rules_;  // the beginning of sluice.yaml
  std::unique_ptr<Process> process_;
  uint16_t divvy_ = 0, limitd_ = 0, droplet_ = 0, admin_ = 0;
};

}  // namespace sluice::tests
