#include "tests/conformance/droplet_differences.h"

namespace sluice::tests {

const std::vector<DropletDifference>& droplet_differences() {
  static const char* const within_limit = "3: a balance never exceeds its limit";
  static const char* const pro_rata = "3: until a limit changes, credit comes at the old one";
  static const char* const silent = "1.5: everything after a Close is ignored";
  static const char* const saturated = "2.1: balances saturate to int32";
  static const char* const malformed = "2.2: what is cut off is malformed";
  static const char* const bytes = "2.2: buckets are raw bytes";
  static const char* const ordinary = "5: ordinary names, all of them";
  static const std::vector<DropletDifference> all{
      // 25 of 10 units: -15
      {"credit-over-limit-burst", 2, "080010f1ffffffffffffffff01", {}, within_limit},
      // 24 of 10: -14; nothing was taken, so 9 and 8 are left behind it
      {"negative-count-above-limit", 2, "080038f2ffffffffffffffff01", {}, within_limit},
      {"negative-count-above-limit", 3, "08013809", {}, within_limit},
      {"negative-count-above-limit", 4, "08013808", {}, within_limit},
      // 90 of 10: -80; then 2 and 1
      {"lower-limit-hidden-surplus", 3, "080038b0ffffffffffffffff01", {}, within_limit},
      {"lower-limit-hidden-surplus", 4, "08013802", {}, within_limit},
      {"lower-limit-hidden-surplus", 5, "08013801", {}, within_limit},
      // 2147483647 of 12; then 12 of 12
      {"count-int32-min", 1, "0800388d808080f8ffffffff01", {}, within_limit},
      {"count-int32-min", 2, "08013800", {}, within_limit},
      // 5 a second for 400 ms
      {"limit-change-is-retroactive", 1, "08011002", {}, pro_rata},
      {"take-text-take", 1, "08013807", {}, silent},
      {"limit-above-int32", 0, "080138ffffffff07", {}, saturated},
      {"limit-above-int32", 1, "080138ffffffff07", {}, saturated},
      {"limit-above-int32", 2, "080138ffffffff07", {}, saturated},
      {"varint-truncated-to-32-bits", 1, "080138ffffffff07", {}, saturated},
      {"balance-below-int32", 4, "08013880808080f8ffffffff01", {}, saturated},
      {"truncated-varint-accepted", 0, "", 1000, malformed},
      {"truncated-unknown-accepted", 0, "", 1000, malformed},
      {"truncated-unknown-accepted", 1, "", 1000, malformed},
      {"invalid-utf8-collapses", 1, "08013804", {}, bytes},
      {"invalid-utf8-collapses", 2, "08013804", {}, bytes},
      {"prototype-name", 2, "08013804", {}, ordinary},
  };
  return all;
}

}  // namespace sluice::tests
