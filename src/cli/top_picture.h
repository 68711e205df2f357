// What `sluice top` prints, from the server's answers: the rates of each key, the table, and the
// lines about each server. Without input and output; one thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/admin_words.h"
#include "cli/terminal.h"

namespace sluice::cli {

// Computes the rates of the items of /v1/top from two successive answers.
class TopRates {
 public:
  using Clock = std::chrono::steady_clock;

  // Adds "allowed_per_second" and "denied_per_second" to every item that the previous answer had as
  // well.
  void add(Json& answer, Clock::time_point at);

 private:
  struct Counts {
    double allowed = 0, denied = 0;
    std::optional<double> allowed_rate, denied_rate;
  };
  std::map<std::string, Counts> before_;  // by rule and path
  Clock::time_point at_{};
};

// The table of the items of /v1/top.
Table table_of_top(const Json& answer);
// "most denied of the last 5m"
std::string order_words(const Json& answer);
// The lines about the server: "12,345/s allowed, 12/s denied, 3,210 counters", and its problems.
struct ServerLines {
  std::string name, figures;
  std::vector<std::string> troubles;
};
ServerLines server_lines(const std::string& address, const std::optional<Look>& before,
                         const Look& now);

// Of one of several servers, in one line.
std::string line_of(const ServerLines& server);

}  // namespace sluice::cli
