// The real server under a clock that is set (clock/set_clock.cc): the recorded windows of the
// calendar over HTTP, each at its instant, and at the end of the window a fresh one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/rfc3339.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace sluice::tests::set_clock {
namespace {

using Json = nlohmann::json;

constexpr int64_t second = 1'000'000, quota = 5;

int64_t at(const Json& text) {
  const auto time = base::parse_rfc3339(text.get<std::string>());
  EXPECT_TRUE(time) << text;
  return time.value_or(base::Time{}).us;
}

int64_t system_now() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

// A server whose wall clock the test sets.
class Server {
 public:
  explicit Server(int64_t begins) {
    const std::string clock = folder_.write("clock", std::string(sizeof(int64_t), '\0'));
    const int file = ::open(clock.c_str(), O_RDWR);
    void* const mapped =
        ::mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED) throw std::runtime_error("the clock's file cannot be mapped");
    ahead_ = static_cast<std::atomic<int64_t>*>(mapped);
    set(begins);
    folder_.write("sluice.yaml",
                  "listen: [{ protocol: http, address: \"127.0.0.1:0\" }]\nworkers: 1\n");
    process_ = std::make_unique<Process>(Process::Options{
        .arguments = {"serve", "--config", folder_.path() + "/sluice.yaml", "--log-level", "warn"},
        .environment = {{"LD_PRELOAD", SLUICE_SET_CLOCK}, {"SLUICE_TEST_CLOCK", clock}}});
    port_ = await_listening(*process_, "http");
  }
  ~Server() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(), 0);
    ::munmap(ahead_, sizeof(int64_t));
  }

  void set(int64_t to) { *ahead_ = to - system_now(); }
  HttpAnswer take(const std::string& key, const Json& limit, int64_t n) const {
    const Json body{{"key", key}, {"n", n}, {"detail", true}, {"limits", {limit}}};
    return http(port_, "POST", "/v1/take", body.dump(), "Content-Type: application/json\r\n");
  }

 private:
  Folder folder_;
  std::atomic<int64_t>* ahead_ = nullptr;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0;
};

// What the first limit of an answer says, and when it was decided, by that.
struct Told {
  Json limit;
  int64_t decided = 0;
};
Told told(const HttpAnswer& answer) {
  const Json limit = Json::parse(answer.body).at("limits").at(0);
  const auto left = limit.at("reset_after").get<double>() * 1e6;
  return {limit, at(limit.at("ends")) - std::llround(left)};
}

class RecordedWindows {
 public:
  // The next case. False: the server came too late to its window, so that another server is needed.
  bool check(const Json& one) {
    Json limit{{"quota", quota}, {"window", one.at("window")}};
    for (const char* key : {"time_zone", "week_starts", "month_day", "year_day", "starts_at"})
      if (one.contains(key)) limit[key] = one.at(key);
    const int64_t begins = at(one.at("at")), ends = at(one.at("end"));
    if (!server_) server_ = std::make_unique<Server>(begins - 60 * second);
    const std::string key = one.at("name");
    server_->set(begins);
    const Told first = take_from(key, limit, begins, quota);
    if (first.decided >= ends) return false;
    EXPECT_EQ(first.limit.at("starts"), one.at("start"));
    EXPECT_EQ(first.limit.at("ends"), one.at("end"));
    EXPECT_EQ(first.limit.at("window"), one.at("length"));
    EXPECT_EQ(first.limit.at("remaining"), 0);
    // To the end and no longer.
    const HttpAnswer refused = server_->take(last_key_, limit, 1);
    if (refused.status == 200) return false;
    EXPECT_EQ(refused.status, 429) << refused.body;
    EXPECT_LE(Json::parse(refused.body).at("retry_after").get<double>(),
              static_cast<double>(ends - first.decided) / 1e6);
    ++checked;
    return true;
  }
  // The window that was checked last is over.
  void end_it(const Json& one) {
    Json limit{{"quota", quota}, {"window", one.at("window")}};
    for (const char* key : {"time_zone", "week_starts", "month_day", "year_day", "starts_at"})
      if (one.contains(key)) limit[key] = one.at(key);
    const int64_t ends = at(one.at("end"));
    server_->set(ends);
    take_from(one.at("name").get<std::string>() + "-end", limit, ends, 1);
    const HttpAnswer again = server_->take(last_of_window_, limit, 1);
    EXPECT_EQ(again.status, 200) << again.body;
    EXPECT_EQ(told(again).limit.at("remaining"), quota - 1);
    ++ended;
  }
  void forget_server() { server_.reset(); }
  void remember() { last_of_window_ = last_key_; }

  size_t checked = 0, ended = 0;

 private:
  // Takes from ever new keys until a decision is of that time or later; the server sees within a
  // tenth of a second that its clock was set.
  Told take_from(const std::string& key, const Json& limit, int64_t from, int64_t n) {
    for (const auto deadline = soon();;
         std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      last_key_ = key + "-" + std::to_string(++keys_);
      const HttpAnswer answer = server_->take(last_key_, limit, n);
      EXPECT_EQ(answer.status, 200) << answer.body;
      Told its = told(answer);
      // The answer has milliseconds.
      if (its.decided >= from - 1'000) return its;
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("not in time");
    }
  }

  std::unique_ptr<Server> server_;
  std::string last_key_, last_of_window_;
  int keys_ = 0;
};

TEST(SetClock, TheRecordedWindowsOverHttp) {
  std::ifstream file(source_path("tests/conformance/calendar.json"));
  std::vector<Json> cases = Json::parse(file).at("cases");
  std::ranges::stable_sort(cases, {}, [](const Json& one) { return at(one.at("at")); });
  RecordedWindows windows;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].dump());
    // A busy machine may come to the last second of a window when it is over.
    for (int left = 20; !windows.check(cases[i]); --left) {
      ASSERT_GT(left, 0) << "this machine is too slow";
      windows.forget_server();
    }
    windows.remember();
    if (i + 1 == cases.size() || at(cases[i].at("end")) + 10 * second < at(cases[i + 1].at("at")))
      windows.end_it(cases[i]);
  }
  EXPECT_EQ(windows.checked, 44u);
  EXPECT_GT(windows.ended, 5u);
}

}  // namespace
}  // namespace sluice::tests::set_clock
