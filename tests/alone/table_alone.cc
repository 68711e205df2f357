// The table in memory in a program that links no other part of sluice, and so no LevelDB,
// spdlog or protobuf. Takes three times from a limit of two units. Exits with 0 if only the
// third take is refused.
#include <array>
#include <span>

#include "base/hash.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/space.h"
#include "store/embedded_store.h"

int main() {
  using namespace sluice;
  request::Spaces spaces;
  const std::array limits = {limit::Limit{limit::Algorithm::fixed_window, 2, base::seconds(60)}};
  store::EmbeddedStore table(size_t{16} << 20, base::Hash(1), spaces);
  request::Charge charge;
  charge.space = spaces.intern("alone/", "");
  charge.key = "key";
  charge.limits = limits;
  charge.limits_id = spaces.intern_limits(limits);
  for (const bool expected : {true, true, false}) {
    request::Group group;
    group.charge_count = 1;
    limit::Decision decision;
    table.apply({{&group, 1}, {&charge, 1}, {&decision, 1}}, base::Time{1});
    if (group.allowed != expected) return 1;
  }
  return 0;
}
