// What a thread needs while it decides, kept for the next one: one for each cell of the gate at
// most, so a settled limiter allocates nothing. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "embed/gate.h"
#include "limit/limit.h"
#include "policy/rule_set.h"
#include "request/charge.h"

namespace sluice::embed {

// Charges that settle together.
struct Charges {
  std::vector<request::Charge> charges;
  std::vector<limit::Decision> decisions;
  std::vector<uint32_t> whose;  // of each charge that was asked for: which one of these it is
};

struct Scratch {
  policy::Plan plan;
  Charges together;

  void clear() {
    plan.clear();
    together.charges.clear();
    together.decisions.clear();
    together.whose.clear();
  }
};

class Scratches {
 public:
  Scratches() = default;
  ~Scratches() {
    for (auto& place : kept_) delete place.load();
  }
  Scratches(const Scratches&) = delete;
  Scratches& operator=(const Scratches&) = delete;

  // An empty one, as long as this lives.
  class Taken {
   public:
    Taken(Scratches& all, size_t cell)
        : place_(all.kept_[cell]), its_(place_.exchange(nullptr, std::memory_order_acquire)) {
      if (its_ == nullptr) its_ = std::make_unique<Scratch>();
    }
    ~Taken() {
      its_->clear();
      Scratch* none = nullptr;
      if (place_.compare_exchange_strong(none, its_.get(), std::memory_order_release,
                                         std::memory_order_relaxed))
        static_cast<void>(its_.release());
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    Scratch* operator->() const { return its_.get(); }

   private:
    std::atomic<Scratch*>& place_;
    std::unique_ptr<Scratch> its_;
  };

 private:
  std::array<std::atomic<Scratch*>, Gate::cells> kept_{};
};

}  // namespace sluice::embed
