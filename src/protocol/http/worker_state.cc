#include "protocol/http/worker_state.h"

#include <ctime>

namespace sluice::http {

std::string_view HttpWorker::date_line(base::Time now) {
  const int64_t second = now.us / 1'000'000;
  if (second == date_second) return date_text;
  date_second = second;
  const auto time = static_cast<std::time_t>(second);
  std::tm parts{};
  gmtime_r(&time, &parts);
  static constexpr const char* days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto two = [this](int number) {
    date_text += static_cast<char>('0' + number / 10 % 10);
    date_text += static_cast<char>('0' + number % 10);
  };
  date_text = date_begin;
  date_text.append(days[parts.tm_wday]).append(", ");
  two(parts.tm_mday);
  date_text.append(" ").append(months[parts.tm_mon]).append(" ");
  date_text.append(std::to_string(parts.tm_year + 1900)).append(" ");
  two(parts.tm_hour);
  date_text += ':';
  two(parts.tm_min);
  date_text += ':';
  two(parts.tm_sec);
  return date_text.append(" GMT\r\n");
}

}  // namespace sluice::http
