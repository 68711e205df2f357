// Any bytes, read as a policy in Divvy's JSON format: rules_fuzz.h says what must hold.
#include "protocol/divvy/rules_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::divvy::fuzz_divvy({reinterpret_cast<const char*>(data), size},
                            sluice::divvy::DivvyFormat::json);
  return 0;
}
