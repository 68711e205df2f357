#include "protocol/envoy/xds_log.h"

#include <algorithm>
#include <string_view>

#include "base/printable.h"

namespace sluice::envoy {
namespace {

std::string_view what_stays(bool has_limits) {
  return has_limits ? "those that were taken before stay"
                    : "requests are refused until there are some";
}

}  // namespace

void XdsLog::begun(Time now) {
  if (!silence_told_) silent_at_ = now + silence;
}

void XdsLog::silent(bool has_limits) {
  silent_at_.reset();
  silence_told_ = true;
  log_->warn("xDS: no limits from {} for node {} yet; {}", server_, base::printable(node_),
             what_stays(has_limits));
}

void XdsLog::taken(const std::string& version, bool anew) {
  heard();
  refusals_.clear();
  if (std::exchange(is_down_, false)) log_->info("xDS: {} sends limits again", server_);
  if (anew)
    log_->info("xDS: took the limits of version `{}` from {}", base::printable(version), server_);
}

void XdsLog::refused(const std::string& text, bool has_limits, Time now) {
  heard();
  std::erase_if(refusals_, [now](const auto& its) { return now - its.second >= again_after; });
  for (const auto& told : refusals_)
    if (told.first == text) return;
  if (refusals_.size() == refusals_max) refusals_.erase(refusals_.begin());
  refusals_.emplace_back(text, now);
  log_->error("xDS: limits of {} refused: {}; {}", server_, base::printable(text),
              what_stays(has_limits));
}

void XdsLog::down(const std::string& problem, bool has_limits, Time now) {
  if (std::exchange(is_down_, true) && now - *down_told_at_ < again_after) return;
  down_told_at_ = now;
  log_->warn("xDS: no stream of limits from {}: {}; {}", server_, problem, what_stays(has_limits));
}

}  // namespace sluice::envoy
