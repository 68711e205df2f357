// Where sluice differs from the recordings of Divvy, and why.
#include "tests/conformance/vectors.h"

namespace sluice::tests {

const std::vector<Difference>& differences() {
  static const char* const ascii = "HIT in ASCII letters, and ASCII upper-casing in the echo";
  static const char* const stop_at_error = "nothing after a bad line is charged";
  static const char* const answer_at_end = "requests before the client's end are answered";
  static const char* const absent_key = "an absent key fits no pattern";
  static const char* const in_order = "requests are processed in order";
  static const char* const file_order = "sections keep the order of the file";
  static const char* const canary = "a canary's failure fails no request";
  static const char* const scripts = "a flushed script is sent again";
  static const char* const dots = "dots in section names are dots";
  static const std::vector<Difference> all{
      {"dotless-i", 0, {"ERR unknown-command \"Unrecognized command: H\u0131T\""}, true, ascii},
      {"err-unknown-unicode-upper",
       0,
       {"ERR unknown-command \"Unrecognized command: STRA\u00DFE\""},
       true,
       ascii},
      {"pipeline-error-then-hits", 1, {"OK true 98 600"}, false, stop_at_error},
      {"eof-no-newline-redis", 0, {"OK true 99 600"}, true, answer_at_end},
      {"eof-no-newline-deny", 0, {"OK false 0 -1"}, true, answer_at_end},
      {"eof-after-newline", 0, {"OK true 99 600"}, true, answer_at_end},
      {"glob-missing-key-undefined", 0, {"OK true 98 600"}, false, absent_key},
      {"glob-missing-key-undefined", 1, {"OK true 15 600"}, false, absent_key},
      {"glob-missing-key-undefined", 2, {"OK true 97 600"}, false, absent_key},
      {"ini-integer-section-first", 0, {"OK true 60 600"}, false, file_order},
      {"ini-integer-section-first", 1, {"OK true 59 600"}, false, file_order},
      {"ini-dotted-section-vanishes", 1, {"OK true 71 600"}, false, dots},
      {"canary-failure-fails-request", 0, {"OK true 3 600"}, false, canary},
      {"noscript", 2, {"OK true 18 100"}, false, scripts},
      {"pipeline-canary-interleave", 0, {"OK true 8 600", "OK true 7 600"}, false, in_order},
  };
  return all;
}

const std::vector<CounterDifference>& counter_differences() {
  static const std::vector<CounterDifference> all{
      {"dotless-i", "HIT in ASCII letters"},
      {"pipeline-error-then-hits", "nothing after a bad line is charged"},
      {"glob-missing-key-undefined", "an absent key fits no pattern"},
      {"ini-integer-section-first", "sections keep the order of the file"},
      {"ini-dotted-section-vanishes", "dots in section names are dots"},
      {"canary-failure-fails-request", "a canary's failure fails no request"},
      {"noscript", "a flushed script is sent again"},
      {"json-actor-constructor", "an actor named like a part of JavaScript is absent too"},
  };
  return all;
}

const std::vector<Refusal>& refusals() {
  static const char* const integers = "only integers up to 2^53-1";
  static const std::vector<Refusal> all{
      {"json-limit-float", "[s=limit-float]", integers},
      {"json-reset-float", "[s=reset-float]", integers},
      {"json-big-limit", "[s=big]", integers},
  };
  return all;
}

const std::vector<std::string>& needing_redis() {
  static const std::vector<std::string> all{
      "share-preset-value",
      "share-preset-zero",
      "share-preset-negative",
      "share-preset-no-ttl",
      "share-preset-garbage",
      "share-preset-float",
      "share-preset-wrongtype",
      "share-preset-above-limit",
      "canary-failure-fails-request",
      "internal-error-then-hit",
      "noscript",
  };
  return all;
}

}  // namespace sluice::tests
