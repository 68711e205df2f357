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

std::span<const std::string_view> Transaction::next() {
  next_.clear();
  size_t at = bytes_done_;
  for (size_t word = words_done_; word < words_done_ + counts_[done_]; ++word) {
    next_.push_back(std::string_view(text_).substr(at, lengths_[word]));
    at += lengths_[word];
  }
  return next_;
}

void Transaction::pop() {
  for (uint32_t i = 0; i < counts_[done_]; ++i) bytes_done_ += lengths_[words_done_++];
  ++done_;
}

}  // namespace sluice::resp
