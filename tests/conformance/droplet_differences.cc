#include "tests/conformance/droplet_differences.h"

namespace sluice::tests {

const std::vector<DropletDifference>& droplet_differences() {
  static const char* const within_limit = "a balance never exceeds its limit";
  static const char* const pro_rata =
      "until a limit changes, units return at the rate of the old one";
  static const char* const silent = "everything after a Close is ignored";
  static const char* const saturated = "balances saturate to int32";
  static const char* const malformed = "a truncated message is malformed";
  static const char* const bytes = "bucket names are raw bytes";
  static const char* const ordinary = "every name is an ordinary name";
  static const std::vector<DropletDifference> all{
      // 25 of 10 units are refused: -15
      {"credit-over-limit-burst", 2, "080010f1ffffffffffffffff01", {}, within_limit},
      // 24 of 10 units are refused: -14. As nothing was taken, two takes of 1 then leave 9 and 8.
      {"negative-count-above-limit", 2, "080038f2ffffffffffffffff01", {}, within_limit},
      {"negative-count-above-limit", 3, "08013809", {}, within_limit},
      {"negative-count-above-limit", 4, "08013808", {}, within_limit},
      // 90 of 10 units are refused: -80; then 2 and 1 are left
      {"lower-limit-hidden-surplus", 3, "080038b0ffffffffffffffff01", {}, within_limit},
      {"lower-limit-hidden-surplus", 4, "08013802", {}, within_limit},
      {"lower-limit-hidden-surplus", 5, "08013801", {}, within_limit},
      // 2147483647 of 12 units are refused; then 12 of 12 are granted
      {"count-int32-min", 1, "0800388d808080f8ffffffff01", {}, within_limit},
      {"count-int32-min", 2, "08013800", {}, within_limit},
      // at 5 a second, 400 ms bring 2 units
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
