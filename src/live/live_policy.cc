#include "live/live_policy.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice::live {

std::shared_ptr<const base::Diagnostics> kept_warnings(const base::Diagnostics& all) {
  using Severity = base::Diagnostic::Severity;
  base::Diagnostics kept;
  std::ranges::copy_if(all, std::back_inserter(kept), [](const base::Diagnostic& one) {
    return one.severity == Severity::warning;
  });
  if (kept.empty()) return nullptr;
  if (const size_t count = kept.size(); count > kept_warnings_max) {
    kept.resize(kept_warnings_max);
    base::Diagnostic rest;
    rest.severity = Severity::warning;
    rest.message = std::to_string(count - kept_warnings_max) + " more are not shown here";
    rest.remedy = "`sluice check` shows all";
    kept.push_back(std::move(rest));
  }
  return std::make_shared<const base::Diagnostics>(std::move(kept));
}

std::string hash_text(uint64_t hash) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = hex[hash >> (60 - 4 * i) & 15];
  return text;
}

void LimitsCollector::force_step() {
  switch (state_) {
    case State::idle:
      marks_ = spaces_.begin_round();
      renewed_ = std::make_shared<std::atomic<bool>>(false);
      state_ = State::passing;
      renew_([renewed = renewed_] { renewed->store(true); });
      break;
    case State::passing:
      if (!renewed_->load() || !live_.is_only_one()) break;
      state_ = State::marking;
      first_ = true;
      break;
    case State::marking:
      if (!store_.mark_named(marks_, std::exchange(first_, false))) break;
      spaces_.end_round(marks_);
      marks_ = {};
      state_ = State::idle;
      ++rounds_;
      break;
  }
}

}  // namespace sluice::live
