// What `sluice top` shows, from what the server says: how much of each key happens in a second, and
// the lines of the picture. Pure; one thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/admin_words.h"
#include "cli/table.h"

namespace sluice::cli {

// Rates of what /v1/top lists, by two answers in a row.
class TopRates {
 public:
  using Clock = std::chrono::steady_clock;

  // Puts "allowed_per_second" and "denied_per_second" into every item that the answer before had
  // too.
  void add(Json& answer, Clock::time_point at);

 private:
  struct Counts {
    double allowed = 0, denied = 0;
    std::optional<double> allowed_rate, denied_rate;
  };
  std::map<std::string, Counts> before_;  // by rule and path
  Clock::time_point at_{};
};

// The table of what /v1/top lists.
Table table_of_top(const Json& answer);
// "most denied of the last 5m"
std::string order_words(const Json& answer);
// "12,345/s allowed, 12/s denied, 3,210 counters", and what is wrong with the server, as lines.
struct ServerLines {
  std::string name, figures;
  std::vector<std::string> troubles;
};
ServerLines server_lines(const std::string& address, const std::optional<Look>& before,
                         const Look& now);

struct TopPicture {
  ServerLines server;
  std::string problem;  // why it is not of now; empty: it is
  Json answer;          // null: there is none yet
};
// At most so many lines, of at most so many columns each.
std::vector<std::string> lines_of(const TopPicture& picture, size_t columns, size_t rows,
                                  bool coloured);

}  // namespace sluice::cli
