#include "protocol/resp/transaction.h"

namespace sluice::resp {

bool Transaction::add(std::span<const std::string_view> words) {
  size_t more = words.size() * sizeof(uint32_t);
  for (const std::string_view word : words) more += word.size();
  if (size() == commands_max || bytes() + more > bytes_max) return false;
  for (const std::string_view word : words) {
    text_ += word;
    lengths_.push_back(static_cast<uint32_t>(word.size()));
  }
  counts_.push_back(static_cast<uint32_t>(words.size()));
  return true;
}

}  // namespace sluice::resp
