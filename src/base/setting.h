// A value of the configuration and where it comes from, for people. A plain value.
#pragma once

#include <string>

namespace sluice::base {

template <class T>
struct Setting {
  T value{};
  std::string origin = "default";  // "default", "sluice.yaml:3", "SLUICE_WORKERS", "--workers"
};

}  // namespace sluice::base
