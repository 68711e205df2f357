// What a handle names: the space of its counters and the limits that hold there. Those of limits in
// code never change; those of a rule are exchanged by a reload, with the gate closed. Shared by its
// handles, counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "limit/limit.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::detail {

class terms {
 public:
  // Where decisions are made by.
  struct Now {
    const request::Space* space = nullptr;  // null: the rule is gone
    std::span<const limit::Limit> limits{};
    uint32_t limits_id = 0;
    const policy::Rule* rule = nullptr;  // null: of limits in code
    request::SpaceRef space_held{};
    request::LimitsRef limits_held{};
  };

  // The spaces live as long as anything that names them.
  terms(std::shared_ptr<request::Spaces> spaces, std::string name, bool is_rule)
      : spaces_(std::move(spaces)), name_(std::move(name)), is_rule_(is_rule) {}

  bool is_of(const std::shared_ptr<request::Spaces>& spaces) const { return spaces_ == spaces; }
  bool is_rule() const { return is_rule_; }
  const std::string& name() const { return name_; }

  void hold() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Is there no handle but one?
  bool is_last() const { return refs_.load(std::memory_order_acquire) == 1; }

 private:
  const std::shared_ptr<request::Spaces> spaces_;
  const std::string name_;
  const bool is_rule_;
  std::atomic<uint32_t> refs_{1};

 public:
  Now now;  // goes before `spaces_`
};

}  // namespace sluice::detail
