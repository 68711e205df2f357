// A copy of a verdict that outlives its batch: as bytes of this process, and read back as a verdict
// that a session answers with as with the first one. It has what replies show: the decisions of the
// enforced rules, the limits, names and counters. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/session.h"

namespace sluice::request {

// Appends the copy. `now`: the time of the decision. Charges whose counters keep their limits are
// left out.
void append_kept(const Verdict& verdict, base::Time now, std::string& to);

// Owns what its verdict points to, so it is neither copied nor moved.
class KeptVerdict {
 public:
  // Reads the copy at the front of `from`, which append_kept made in this process, and removes it.
  explicit KeptVerdict(std::string_view& from);
  KeptVerdict(const KeptVerdict&) = delete;
  KeptVerdict& operator=(const KeptVerdict&) = delete;

  const Verdict& verdict() const { return verdict_; }
  base::Time now() const { return now_; }

 private:
  std::string rule_;
  std::vector<Space> spaces_;
  std::vector<std::string> keys_;
  std::vector<RuleWords> rules_;
  std::vector<limit::Limit> limits_;
  std::vector<limit::Decision> decisions_;
  std::vector<Charge> charges_;
  limit::Limit limit_;
  limit::Decision tightest_;
  Verdict verdict_;
  base::Time now_;
};

}  // namespace sluice::request
