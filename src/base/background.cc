#include "base/background.h"

#include <chrono>
#include <thread>

namespace sluice::base {

namespace {

using std::chrono::steady_clock;

constexpr auto burst = std::chrono::microseconds(200), rest = std::chrono::microseconds(50);

struct Pace {
  bool is_on = false;
  steady_clock::time_point rested;
};
thread_local Pace its;

}  // namespace

void yield_if_background() {
  if (!its.is_on || steady_clock::now() - its.rested < burst) return;
  std::this_thread::sleep_for(rest);
  its.rested = steady_clock::now();
}

Paced::Paced() {
  its = {true, steady_clock::now()};
}

Paced::~Paced() {
  its.is_on = false;
}

}  // namespace sluice::base
