// The commands between MULTI and EXEC, kept until they are executed or discarded. Owned by one
// session, used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::resp {

class Transaction {
 public:
  // What one may hold. Past either the command is refused, and EXEC aborts.
  static constexpr size_t commands_max = 16'384;
  static constexpr size_t bytes_max = size_t{1} << 20;

  // False: it does not fit.
  bool add(std::span<const std::string_view> words);
  // A command in it was wrong: EXEC aborts.
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

  size_t size() const { return counts_.size(); }
  // Memory held for it.
  size_t bytes() const { return text_.size() + lengths_.size() * sizeof(uint32_t); }

  // Calls `visit(words)` for each command in order; the words live as long as this.
  template <class Visit>
  void each(Visit&& visit) const {
    std::vector<std::string_view> words;
    size_t at = 0, word = 0;
    for (const uint32_t count : counts_) {
      words.clear();
      for (uint32_t i = 0; i < count; ++i, ++word) {
        words.push_back(std::string_view(text_).substr(at, lengths_[word]));
        at += lengths_[word];
      }
      visit(std::span<const std::string_view>(words));
    }
  }

 private:
  std::string text_;               // all words, one behind the other
  std::vector<uint32_t> lengths_;  // of each word
  std::vector<uint32_t> counts_;   // of each command's words
  bool failed_ = false;
};

}  // namespace sluice::resp
