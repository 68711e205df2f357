#include "live/change_log.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace sluice::live {

using wire::Json;

namespace {

constexpr size_t by_bytes_max = 256;

std::string one_line(const Json& json) {
  if (json.is_null()) return "nothing";
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void shorten(Json& json) {
  const size_t bytes = json.dump(-1, ' ', false, Json::error_handler_t::replace).size();
  if (bytes > ChangeLog::text_bytes_max) json = Json{{"cut", bytes}};
}

}  // namespace

void ChangeLog::add(Change change) {
  change.by = base::printable(change.by, by_bytes_max);
  for (Json* const json : {&change.about, &change.before, &change.after}) shorten(*json);
  change.at = std::chrono::system_clock::now();
  // With the lock, so that the lines stand in the order of their numbers.
  const std::lock_guard lock(mutex_);
  change.number = ++total_;
  if (log_)
    log_->info("change {}: {} by {} | {} | before: {} | after: {}", change.number, change.what,
               change.by, one_line(change.about), one_line(change.before), one_line(change.after));
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
