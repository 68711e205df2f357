// The kernel's figures of this process, under the names that every Prometheus client uses. Any
// thread.
#pragma once

#include "metrics/page.h"

namespace sluice::metrics {

class ProcessSource final : public Source {
 public:
  void collect(Page& page) const override;
};

}  // namespace sluice::metrics
