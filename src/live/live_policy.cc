#include "live/live_policy.h"

namespace sluice::live {

std::string hash_text(uint64_t hash) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = hex[hash >> (60 - 4 * i) & 15];
  return text;
}

}  // namespace sluice::live
