// Warns of rules that clients ask "is anything left?" before their work, and whose limits refuse
// what the work came to without counting it: the next look passes again, for ever. Such a limit
// wants `over: count`, or its clients want to charge. One line a minute at most, of all workers.
// Owned by one worker.
#pragma once

#include <spdlog/logger.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "policy/rule_set.h"

namespace sluice::engine {

class LeakWarnings {
 public:
  static constexpr base::Duration pause = base::seconds(60);

  // A peek or a take of cost 0 was allowed.
  void looked(const policy::Plan& plan, const policy::Plan::RequestPlan& part, base::Time now);
  // A take was refused.
  void refused(spdlog::logger& log, const policy::Plan& plan, const policy::Plan::RequestPlan& part,
               base::Time now) {
    if (any_) [[unlikely]]
      warn(log, plan, part, now);
  }

 private:
  void warn(spdlog::logger& log, const policy::Plan& plan, const policy::Plan::RequestPlan& part,
            base::Time now);

  // The rules that were looked at last, by Rule::id, and when.
  struct Look {
    uint64_t rule = 0;
    base::Time when{};
  };
  std::array<Look, 16> looks_{};
  size_t next_ = 0;
  bool any_ = false;
};

}  // namespace sluice::engine
