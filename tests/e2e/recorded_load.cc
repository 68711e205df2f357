#include "tests/e2e/recorded_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include "tests/support/comes.h"
#include "tests/support/droplet_client.h"
#include "tests/support/limitd_client.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;

constexpr int64_t small_limit = 40, large_limit = 1'000'000;
// Droplet's buckets refill: with 1,000 units a month, by less than 1.5 units an hour.
constexpr int64_t large_droplet_limit = 1000;
constexpr int wrong_told_max = 5;

const char* const divvy_policy =
    "[size=small who=*]\ncreditLimit = 40\nresetSeconds = 1000000\nactorField = who\n\n"
    "[size=large who=*]\ncreditLimit = 1000000\nresetSeconds = 1000000\nactorField = who\n\n"
    "[default]\ncreditLimit = 0\n";
const char* const limitd_policy = "buckets: { small: { size: 40 }, large: { size: 1000000 } }\n";

bool is_small(uint32_t counter) {
  return counter % 2 == 0;
}
const char* size_of(uint32_t counter) {
  return is_small(counter) ? "small" : "large";
}

class DivvyTalker final : public Talker {
 public:
  explicit DivvyTalker(TcpClient client) : tcp_(std::move(client)) {}
  std::string request(uint32_t counter, bool) override {
    return std::string("HIT size=") + size_of(counter) + " who=" + std::to_string(counter) + "\n";
  }
  bool send(const std::string& requests) override { return tcp_.send(requests); }
  std::optional<Told> read(uint32_t counter) override {
    const auto line = tcp_.read_line(within(patience));
    if (!line) return std::nullopt;
    const int64_t limit = limit_of(Spoken::divvy, counter);
    if (line->starts_with("OK true "))
      return Told{Answer::granted, limit - std::stoll(line->substr(8))};
    if (line->starts_with("OK false 0 ")) return Told{Answer::refused, limit};
    if (line->starts_with("ERR ")) return Told{Answer::failed, 0};
    throw std::runtime_error("an odd reply: " + *line);
  }

 private:
  TcpClient tcp_;
};

class LimitdTalker final : public Talker {
 public:
  explicit LimitdTalker(TcpClient client) : client_(std::move(client)) {}
  std::string request(uint32_t counter, bool put) override {
    return frame(put ? LimitdMethod::put : LimitdMethod::take, counter);
  }
  std::string look(uint32_t counter) override { return frame(LimitdMethod::get, counter); }
  bool send(const std::string& requests) override {
    return client_.send(std::string_view(requests));
  }
  std::optional<Told> read(uint32_t counter) override {
    const auto reply = client_.await(std::to_string(++read_), within(patience));
    if (!reply) return std::nullopt;
    if (reply->kind == "error") throw std::runtime_error("limitd's error reply");
    if (reply->limit == 0) return Told{Answer::failed, 0};  // the store could not decide
    const bool granted = reply->kind != "take" || reply->conformant;
    return Told{granted ? Answer::granted : Answer::refused,
                limit_of(Spoken::limitd, counter) - reply->remaining};
  }

 private:
  std::string frame(LimitdMethod method, uint32_t counter) {
    return limitd_frame({method, size_of(counter), std::to_string(counter), 1},
                        std::to_string(++sent_));
  }
  LimitdClient client_;
  uint64_t sent_ = 0, read_ = 0;
};

class DropletTalker final : public Talker {
 public:
  explicit DropletTalker(uint16_t port) : client_(port) {}
  std::string request(uint32_t counter, bool) override {
    return frame({.bucket = std::to_string(counter),
                  .limits = {{"lo", limit_of(Spoken::droplet, counter)}}});
  }
  std::string look(uint32_t counter) override {
    return frame({.bucket = std::to_string(counter), .query = true});
  }
  bool send(const std::string& requests) override { return client_.send(requests); }
  std::optional<Told> read(uint32_t counter) override {
    const auto got = client_.read(within(patience));
    if (!got || got->opcode == close_frame) return std::nullopt;
    const DropletLeft left = read_response(got->payload);
    const int64_t limit = limit_of(Spoken::droplet, counter);
    const auto at = left.left.find("lo");
    return Told{left.accept ? Answer::granted : Answer::refused,
                at == left.left.end() ? 0 : limit - at->second};
  }

 private:
  static std::string frame(const DropletTake& take) {
    return to_frame(binary_frame, to_message(take));
  }
  DropletClient client_;
};

}  // namespace

std::string name_of(Spoken spoken) {
  static const char* const names[] = {"divvy", "limitd", "droplet"};
  return names[static_cast<size_t>(spoken)];
}

int64_t limit_of(Spoken spoken, uint32_t counter) {
  if (is_small(counter)) return small_limit;
  return spoken == Spoken::droplet ? large_droplet_limit : large_limit;
}

Process::Options RecordedServer::options(const Folder& folder, const std::string& store,
                                         Process::Options options) {
  folder.write("rules.ini", divvy_policy);
  folder.write("limitd.yaml", limitd_policy);
  const std::string config = folder.write(
      "sluice.yaml", "store: { path: \"" + folder.path() + "/data\", " + store +
                         " }\npolicy: [{ divvy: rules.ini }, { limitd: limitd.yaml }]\n"
                         "listen:\n"
                         "  - { protocol: divvy, address: \"127.0.0.1:0\" }\n"
                         "  - { protocol: limitd, address: \"127.0.0.1:0\" }\n"
                         "  - { protocol: droplet, address: \"127.0.0.1:0\" }\n");
  options.arguments.insert(options.arguments.begin(), {"serve", "--config", config});
  options.environment.try_emplace("SLUICE_LOG_LEVEL", "warn");
  return options;
}

RecordedServer::RecordedServer(const Folder& folder, const std::string& store,
                               Process::Options more)
    : process_(std::make_unique<Process>(options(folder, store, std::move(more)))) {
  comes(
      [this] {
        return process_->out().find(" listening on ") != std::string::npos ||
               process_->wait(steady_clock::now());
      },
      within(patience));
  for (const Spoken spoken : all_spoken)
    ports_[spoken] = await_listening(*process_, name_of(spoken));
}

int RecordedServer::end(int signal) {
  process_->signal(signal);
  return process_->wait(within(patience)).value_or(-1);
}

std::unique_ptr<Talker> Talker::connect(Spoken spoken, uint16_t port) {
  if (spoken == Spoken::droplet) {
    try {
      return std::make_unique<DropletTalker>(port);
    } catch (const std::runtime_error&) {  // refused, or the server was killed within the handshake
      return nullptr;
    }
  }
  auto client = TcpClient::connect(port);
  if (!client) return nullptr;
  if (spoken == Spoken::divvy) return std::make_unique<DivvyTalker>(*std::move(client));
  return std::make_unique<LimitdTalker>(*std::move(client));
}

Load::Load(const RecordedServer& server, const Shape& shape, uint32_t seed) {
  for (const auto& [spoken, counters] : shape.counters) {
    for (int i = 0; i < shape.connections && counters > 0; ++i) {
      auto& connection = *connections_.emplace_back(std::make_unique<Connection>());
      connection.spoken = spoken;
      const uint16_t port = server.port(spoken);
      const Dice dice(seed + static_cast<uint32_t>(connections_.size()));
      connection.thread = std::thread(
          [this, &connection, port, shape, dice] { talk(connection, port, shape, dice); });
    }
  }
}

void Load::stop() {
  stopping_ = true;
  join();
}

void Load::join() {
  for (auto& connection : connections_)
    if (connection->thread.joinable()) connection->thread.join();
}

void Load::talk(Connection& connection, uint16_t port, const Shape& shape, Dice dice) {
  try {
    do {
      std::map<uint32_t, int> mine;
      const auto talker = Talker::connect(connection.spoken, port);
      if (talker != nullptr) {
        while (!stopping_ && converse(connection, *talker, shape, dice, mine)) {
        }
      }
      if (shape.again) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } while (shape.again && !stopping_);
  } catch (const std::exception& e) {
    connection.trouble = name_of(connection.spoken) + ": " + e.what();
  }
}

// Sends a few requests together, and reads the replies. A put returns a unit that was granted to
// this connection, so its counter is never full. False: the connection has ended.
bool Load::converse(Connection& connection, Talker& talker, const Shape& shape, Dice& dice,
                    std::map<uint32_t, int>& mine) {
  auto& asked = connection.asked;
  const size_t first = asked.size(), count = 1 + dice(shape.depth);
  const uint32_t counters = shape.counters.at(connection.spoken);
  std::string requests;
  for (size_t i = 0; i < count; ++i) {
    // Half of the requests use a few counters, so that all connections share these.
    Asked next{.counter = dice(dice(2) == 0 ? std::min(counters, 50u) : counters)};
    if (connection.spoken == Spoken::limitd && !is_small(next.counter) && dice(3) == 0) {
      const auto has = mine.find(next.counter);
      if (has != mine.end() && has->second > 0) {
        next.put = true;
        --has->second;
      }
    }
    requests += talker.request(next.counter, next.put);
    asked.push_back(next);
  }
  const Instant sent = steady_clock::now();
  for (size_t i = first; i < asked.size(); ++i) asked[i].sent = sent;
  if (!talker.send(requests)) return false;
  for (size_t i = first; i < asked.size(); ++i) {
    const auto told = talker.read(asked[i].counter);
    if (!told) return false;
    asked[i].at = steady_clock::now();
    asked[i].answer = told->answer;
    if (told->answer != Answer::none) answered_.fetch_add(1, std::memory_order_relaxed);
    if (told->answer == Answer::granted)
      granted_[static_cast<size_t>(connection.spoken)].fetch_add(1, std::memory_order_relaxed);
    if (told->answer == Answer::failed)
      failed_[static_cast<size_t>(connection.spoken)].fetch_add(1, std::memory_order_relaxed);
    const bool taken = told->answer == Answer::granted && !asked[i].put;
    if (taken && connection.spoken == Spoken::limitd) ++mine[asked[i].counter];
    if (told->answer == Answer::failed && connection.spoken == Spoken::divvy) return false;
  }
  return true;
}

uint64_t Load::answers(Spoken spoken, Answer answer, Instant from, Instant to, Instant sent) {
  uint64_t count = 0;
  for (const auto& connection : connections_)
    for (const Asked& asked : connection->asked)
      count += connection->spoken == spoken && asked.answer == answer && asked.at >= from &&
               asked.at < to && asked.sent >= sent;
  return count;
}

Instant Load::last_answered() const {
  Instant last{};
  for (const auto& connection : connections_)
    for (const Asked& asked : connection->asked)
      if (asked.answer != Answer::none) last = std::max(last, asked.sent);
  return last;
}

Record::Record(std::map<Spoken, uint32_t> counters) {
  for (const auto& [spoken, count] : counters) counters_[spoken].resize(count);
}

void Record::add(Load& load, std::map<Spoken, Instant> forgets_from, Instant end) {
  for (const auto& connection : load.connections()) {
    if (!connection->trouble.empty()) ADD_FAILURE() << connection->trouble;
    const Spoken spoken = connection->spoken;
    const Instant from = forgets_from.contains(spoken) ? forgets_from[spoken] : Instant::max();
    for (const Asked& asked : connection->asked) {
      Counter& counter = counters_.at(spoken)[asked.counter];
      const int64_t sign = asked.put ? -1 : 1;
      answered += asked.answer != Answer::none;
      if (asked.answer == Answer::refused) continue;
      const bool told = asked.answer == Answer::granted;
      if (told) counter.told += sign;
      if (told && !asked.put) ++granted;
      if (told && asked.at < from) {
        counter.low += sign;
        counter.high += sign;
        if (!asked.put) ++counter.granted;
      } else {  // it may be forgotten or not
        (asked.put ? counter.low : counter.high) += sign;
        if (told && !asked.put) counter.grants.push_back(end - asked.at);
      }
    }
  }
  for (auto& [spoken, all] : counters_)
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (forgets_from.contains(spoken) && all[i].looked >= forgets_from[spoken]) {
        --all[i].low;
        --all[i].granted;
        all[i].grants.push_back(end - all[i].looked);
      }
      all[i].looked = {};
      all[i].low = std::max<int64_t>(all[i].low, 0);
      all[i].high = std::min(all[i].high, limit_of(spoken, i));
    }
}

uint64_t Record::compare(const RecordedServer& server, std::string& told) {
  uint64_t wrong = 0;
  for (const auto& [spoken, all] : counters_)
    if (!all.empty()) compare(spoken, server, told, wrong);
  return wrong;
}

void Record::compare(Spoken spoken, const RecordedServer& server, std::string& told,
                     uint64_t& wrong) {
  constexpr uint32_t at_once = 500;
  auto& all = counters_.at(spoken);
  const auto talker = Talker::connect(spoken, server.port(spoken));
  if (talker == nullptr) throw std::runtime_error("the server refuses a connection");
  const auto complain = [&](uint32_t counter, const std::string& what) {
    if (++wrong <= wrong_told_max)
      told += name_of(spoken) + " counter " + std::to_string(counter) + ": " + what + "\n";
  };
  for (uint32_t first = 0; first < all.size(); first += at_once) {
    const auto end = std::min<uint32_t>(first + at_once, static_cast<uint32_t>(all.size()));
    std::string requests;
    for (uint32_t i = first; i < end; ++i) requests += talker->look(i);
    last_looked_ = steady_clock::now();
    talker->send(requests);
    for (uint32_t i = first; i < end; ++i) {
      const auto reply = talker->read(i);
      if (!reply) {
        const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
            steady_clock::now() - last_looked_);
        complain(i, "no reply within " + std::to_string(waited.count()) +
                        " ms; the server said: " + server.err());
        return;
      }
      Counter& c = all[i];
      const int64_t limit = limit_of(spoken, i);
      if (reply->answer == Answer::failed) complain(i, "it cannot be asked for");
      const bool took = spoken == Spoken::divvy && reply->answer == Answer::granted;
      const int64_t used = reply->used - (took ? 1 : 0);
      if (used < c.low || used > c.high)
        complain(i, std::to_string(used) + " units are used; by what was answered it is " +
                        std::to_string(c.low) + " to " + std::to_string(c.high));
      // Grants that cannot be forgotten must fit in the limit.
      if (is_small(i) && c.granted > limit)
        complain(i, std::to_string(c.granted) + " granted of " + std::to_string(limit));
      if (used < c.told && !c.grants.empty()) {
        const auto lost = std::min(static_cast<size_t>(c.told - used), c.grants.size());
        std::sort(c.grants.begin(), c.grants.end());
        forgotten += lost;
        oldest_forgotten =
            std::max(oldest_forgotten,
                     std::chrono::duration_cast<std::chrono::milliseconds>(c.grants[lost - 1]));
      }
      // Grants of the window that were not forgotten cannot be forgotten any more.
      if (used > c.low) c.granted += std::min<int64_t>(used - c.low, std::ssize(c.grants));
      if (took) ++c.granted, c.looked = steady_clock::now();
      c.grants.clear();
      c.low = c.high = c.told = reply->used;
      ++compared;
    }
  }
}

}  // namespace sluice::tests
