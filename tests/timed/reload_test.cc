// Repeated reloads under full load lose no request, and with 10,000 rules they delay none by more
// than 5 ms, as clients of a real server see it. The load generator and the thread that reads rules
// share the processors with the worker and with anything else on the machine. So stretches of time
// with reloads alternate with stretches of the same length without, and are compared with them: the
// waits around each exchange of the rules with the waits around moments at which nothing happens,
// and the longest wait of each stretch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr size_t connections = 8, depth = 16, stretches_min = 5, stretches_max = 10;
constexpr auto stretch_min = 500ms;
constexpr auto moments = 50ms;  // between two of them
// After that no new stretch begins: the machine is too busy to run the reloader often.
constexpr auto enough = 40s;
constexpr double delay_max_ms = 5;

// The two editions differ in the reply to `HIT edition=x`.
std::string policy(bool first, size_t rules) {
  std::string text = first ? "[edition=x]\ncreditLimit = 1000000000\nresetSeconds = 86400\n"
                           : "[edition=x]\ncreditLimit = 0\n";
  for (size_t i = 1; i < rules - 1; ++i)
    text += "[k=v" + std::to_string(i) +
            " ip=*]\ncreditLimit = 1000000000\nresetSeconds = 86400\nactorField = ip\n";
  return text + "[default]\ncreditLimit = 0\n";
}

double milliseconds(steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Connections that one thread keeps full of requests. It measures how long each pipeline of
// requests takes.
class Load {
 public:
  struct Pipeline {
    TcpClient client;
    steady_clock::time_point sent = {};
    size_t awaited = 0;
    bool edition = true;
    double waited = 0;    // ms, for the last pipeline that was answered completely
    bool marked = false;  // one of the moments was during it
  };

  Load(const DivvyServer& server, size_t rules) {
    for (size_t i = 0; i < connections; ++i) {
      pipelines_.push_back({server.client()});
      texts_[i] = "HIT edition=x\n";
      for (size_t d = 1; d < depth; ++d)
        texts_[i] += "HIT k=v" + std::to_string(1 + (i * depth + d) * 77 % (rules - 2)) +
                     " ip=10.0.0." + std::to_string(i) + "\n";
    }
  }

  // Runs while `more` returns true. Returns the longest time of a pipeline, in ms. With `calm`
  // there are no reloads, and moments are marked.
  double run(const std::function<bool()>& more, bool calm) {
    double worst = 0;
    auto moment = steady_clock::now() + moments;
    Deadline deadline = soon();
    for (size_t i = 0; i < connections; ++i) send(i);
    for (size_t open = connections; open > 0;) {
      for (size_t i = 0; i < connections; ++i) {
        auto& p = pipelines_[i];
        while (p.awaited > 0) {
          const auto line = p.client.peek_line(0ms);
          if (!line) break;
          ++replies_;
          const bool allowed = line->starts_with("OK true ");
          if (p.awaited == depth) {
            changed_[i] = allowed != p.edition;
            p.edition = allowed;
            if (!allowed && *line != "OK false 0 -1") ++wrong_;
          } else if (!allowed) {
            ++wrong_;
          }
          if (--p.awaited > 0) continue;
          const auto now = steady_clock::now();
          const double waited = milliseconds(now - p.sent);
          worst = std::max(worst, waited);
          // The exchange, or the moment, was during this pipeline or the one before.
          if (changed_[i]) at_change_.push_back(std::max(waited, p.waited));
          if (std::exchange(p.marked, false)) at_moments_.push_back(std::max(waited, p.waited));
          p.waited = waited;
          p.marked = calm && p.sent <= moment && moment < now;
          deadline = soon();
          if (more())
            send(i);
          else
            --open;
        }
        if (calm && i + 1 == connections && steady_clock::now() > moment + moments / 2)
          moment += moments;
        if (p.client.ended()) throw std::runtime_error("the server has closed a connection");
      }
      if (steady_clock::now() > deadline) throw std::runtime_error("a reply is lost");
    }
    return worst;
  }

  size_t sent() const { return sent_; }
  size_t replies() const { return replies_; }
  size_t wrong() const { return wrong_; }
  // How long clients waited for replies, in ms: around exchanges of the rules, and around moments
  // of calm.
  const std::vector<double>& at_change() const { return at_change_; }
  const std::vector<double>& at_moments() const { return at_moments_; }

 private:
  void send(size_t i) {
    auto& p = pipelines_[i];
    p.sent = steady_clock::now();
    p.awaited = depth;
    sent_ += depth;
    if (!p.client.send(texts_[i])) throw std::runtime_error("the server has closed a connection");
  }

  std::vector<Pipeline> pipelines_;
  std::array<std::string, connections> texts_;
  std::array<bool, connections> changed_{};
  std::vector<double> at_change_, at_moments_;
  size_t sent_ = 0, replies_ = 0, wrong_ = 0;
};

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

// The part of all pairs of a time in `a` and one in `b` in which that of `a` is larger by more than
// `margin`: about half or less if nothing makes the times in `a` larger by that, nearly all if
// something does.
double exceeding(const std::vector<double>& a, const std::vector<double>& b, double margin) {
  size_t pairs = 0;
  for (const double x : a)
    for (const double y : b) pairs += x > y + margin ? 1 : 0;
  return static_cast<double>(pairs) / static_cast<double>(a.size() * b.size());
}

// A server whose policy is one of two editions, in turn. It has one worker: on two processors the
// worker and the load keep one each busy, so the reloader must take its time from them.
class Reloaded {
 public:
  explicit Reloaded(size_t rules)
      : editions_{folder_.write("a.ini", policy(true, rules)),
                  folder_.write("b.ini", policy(false, rules))} {
    fs::create_symlink(editions_[0], path_);
    server_ = std::make_unique<DivvyServer>(
        Process::Options{.arguments = {"divvy", "--workers", "1", path_},
                         .environment = {{"SLUICE_LOG_LEVEL", "info"}}});
  }

  // Costs this process little: the rules are not written again, and it sleeps while it waits.
  bool reload() {
    const size_t next = ++reloads_;
    fs::create_symlink(editions_[next % 2], path_ + ".new");
    fs::rename(path_ + ".new", path_);
    process().signal(SIGHUP);
    return was_generation(next);
  }
  bool was_generation(size_t number, Deadline deadline = soon()) {
    return process().says("was generation " + std::to_string(number) + "\n", deadline);
  }

  const DivvyServer& server() const { return *server_; }
  Process& process() { return server_->process(); }
  size_t reloads() const { return reloads_; }

 private:
  const Folder folder_;
  const std::array<std::string, 2> editions_;
  const std::string path_ = folder_.path() + "/rules.ini";
  std::unique_ptr<DivvyServer> server_;
  size_t reloads_ = 0;
};

void expect_all_answered(Reloaded& reloaded, const Load& load) {
  EXPECT_EQ(load.replies(), load.sent());
  EXPECT_EQ(load.wrong(), 0u);
  EXPECT_FALSE(reloaded.was_generation(reloaded.reloads() + 1, Deadline{}));
  EXPECT_TRUE(reloaded.was_generation(reloaded.reloads(), Deadline{}));
}

TEST(Reload, LosesNoRequest) {
  constexpr size_t rules = 200, reloads = 10;
  Reloaded reloaded(rules);
  ASSERT_TRUE(reloaded.process().says(", 200 rules\n"));
  Load load(reloaded.server(), rules);
  std::atomic<bool> reloading{true};
  std::thread reloader([&] {
    while (reloaded.reloads() < reloads && reloaded.reload()) {
    }
    reloading = false;
  });
  load.run([&] { return reloading.load(); }, false);
  reloader.join();
  expect_all_answered(reloaded, load);
  EXPECT_EQ(reloaded.reloads(), reloads);
  EXPECT_GT(load.sent(), connections * depth);
  EXPECT_TRUE(reloaded.server().client().ask("HIT edition=x").starts_with("OK true "));
}

TEST(Reload, DelaysNoRequest) {
  SLUICE_HOLDS_TIMES();
  constexpr size_t rules = 10'000;
  Reloaded reloaded(rules);
  ASSERT_TRUE(reloaded.process().says(", 10,000 rules\n"));
  Load load(reloaded.server(), rules);
  const auto until = [](Deadline end) { return [end] { return steady_clock::now() < end; }; };
  load.run(until(steady_clock::now() + 300ms), false);  // creates counters, grows buffers
  std::vector<double> with, without;
  const auto first = steady_clock::now();
  for (size_t i = 0; i < stretches_max; ++i) {
    const auto begin = steady_clock::now();
    if (i >= stretches_min && begin > first + enough) break;
    std::atomic<bool> reloading{true};
    std::thread reloader([&] {
      while (reloaded.reload() && steady_clock::now() < begin + stretch_min) {
      }
      reloading = false;
    });
    with.push_back(load.run([&] { return reloading.load(); }, false));
    reloader.join();
    const auto end = steady_clock::now();
    load.run(until(end + 300ms),
             false);  // the server frees old rules and checks the files once more
    without.push_back(load.run(until(steady_clock::now() + (end - begin)), true));
  }
  expect_all_answered(reloaded, load);

  ASSERT_FALSE(load.at_moments().empty());
  EXPECT_GE(load.at_change().size(), reloaded.reloads() * connections / 2);
  const double at_change = exceeding(load.at_change(), load.at_moments(), delay_max_ms);
  const double part = exceeding(with, without, delay_max_ms);
  std::cout << load.sent() << " requests, " << reloaded.reloads() << " reloads of " << rules
            << " rules. Wait around an exchange, median: " << median(load.at_change())
            << " ms, around moments of calm " << median(load.at_moments()) << " ms; more than "
            << delay_max_ms << " ms apart in " << at_change * 100
            << " % of all pairs. Longest wait for a reply in a stretch, median: " << median(with)
            << " ms with reloads, " << median(without) << " ms without; more than " << delay_max_ms
            << " ms apart in " << part * 100 << " % of all pairs\n";
  EXPECT_LT(at_change, 0.5);
  EXPECT_LT(part, 0.9);
}

}  // namespace
}  // namespace sluice::tests
