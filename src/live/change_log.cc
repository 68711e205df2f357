#include "live/change_log.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "log/log.h"

namespace sluice::live {

using wire::Json;

namespace {

constexpr size_t by_bytes_max = 256;

std::string one_line(const Json& json) {
  if (json.is_null()) return "nothing";
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

size_t bytes_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace).size();
}

void shorten(Json& json, size_t bytes_max) {
  if (const size_t bytes = bytes_of(json); bytes > bytes_max) json = Json{{"cut", bytes}};
}

// The change as fields of a line. Of what does not fit, the longest is cut first.
std::string fields_of(const Change& change) {
  Json fields{{"number", change.number}, {"what", change.what},     {"by", change.by},
              {"about", change.about},   {"before", change.before}, {"after", change.after}};
  std::string text = one_line(fields);
  while (text.size() > log::line_bytes_max) {
    Json* longest = &fields["about"];
    for (const char* key : {"before", "after"})
      if (bytes_of(fields[key]) > bytes_of(*longest)) longest = &fields[key];
    const size_t bytes = bytes_of(*longest);
    shorten(*longest, 0);
    if (bytes_of(*longest) >= bytes) break;
    text = one_line(fields);
  }
  return text;
}

}  // namespace

void ChangeLog::add(Change change) {
  change.by = base::printable(change.by, by_bytes_max);
  for (Json* const json : {&change.about, &change.before, &change.after})
    shorten(*json, text_bytes_max);
  change.at = std::chrono::system_clock::now();
  // With the lock, so that the lines stand in the order of their numbers.
  const std::lock_guard lock(mutex_);
  change.number = ++total_;
  if (log_)
    log::log_fields(
        *log_, spdlog::level::info,
        "change " + std::to_string(change.number) + ": " + change.what + " by " + change.by,
        " | " + one_line(change.about) + " | before: " + one_line(change.before) +
            " | after: " + one_line(change.after),
        "change", fields_of(change));
  if (changes_.size() == kept_max) changes_.pop_front();
  changes_.push_back(std::move(change));
}

ChangeLog::Page ChangeLog::page(uint64_t after, size_t max) const {
  const std::lock_guard lock(mutex_);
  Page page;
  page.total = total_;
  auto at = changes_.begin();
  if (after == 0)
    at += static_cast<std::ptrdiff_t>(changes_.size() - std::min(changes_.size(), max));
  else
    at = std::find_if(at, changes_.end(), [&](const Change& one) { return one.number > after; });
  for (; at != changes_.end() && page.changes.size() < max; ++at) page.changes.push_back(*at);
  return page;
}

}  // namespace sluice::live
