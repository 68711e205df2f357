#include "protocol/settings.h"

namespace sluice::protocol {

std::string Settings::note(const config::Config&) const {
  return {};
}

void Settings::check(const config::Config&, base::Diagnostics&) const {}

}  // namespace sluice::protocol
