// Changes of log levels by the admin port (admin/log_control.h), several at a time.
#include "admin/log_control.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <string>
#include <thread>
#include <vector>

#include "admin/admin_json.h"

namespace sluice::admin {
namespace {

class Plain final : public HttpHandler {
 public:
  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest&) const override { return {}; }
  bool is_slow(const wire::HttpRequest&) const override { return false; }
  wire::HttpResponse answer(const wire::HttpRequest&) override { return {}; }
  wire::HttpResponse problem(unsigned status, const std::string& why) const override {
    return {status, "text/plain", why, {}};
  }
};

// Each thread changes the level of its own module: no change may undo another.
TEST(LogControl, ConcurrentChangesAreAllApplied) {
  log::Log log(spdlog::level::off, std::make_shared<spdlog::sinks::null_sink_mt>(), 16);
  LogControl control(log, 0);
  Plain handler;
  live::ChangeLog changes(nullptr);
  std::vector<std::thread> threads;
  std::atomic<int> lost{0};
  for (const std::string_view module : log::log_module_names) {
    threads.emplace_back([&, name = std::string(module)] {
      for (int i = 0; i < 2000; ++i) {
        const std::string level = i % 2 == 0 ? "warn" : "error";
        wire::HttpRequest request;
        request.body = R"({"modules": {")" + name + R"(": ")" + level + R"("}})";
        control.put(request, handler, "a test", changes);
        // Only this thread names this module.
        if (Json::parse(control.get().body).at("modules").at(name) != level) ++lost;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace sluice::admin
