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

  // Are all of its commands executed?
  bool is_done() const { return done_ == counts_.size(); }
  // The words of the next command; the list lives until the next call, the words as long as this.
  std::span<const std::string_view> next();
  // It is executed.
  void pop();

 private:
  std::string text_;               // all words, one behind the other
  std::vector<uint32_t> lengths_;  // of each word
  std::vector<uint32_t> counts_;   // of each command's words
  bool failed_ = false;
  // Of what is executed: commands, words, bytes.
  size_t done_ = 0, words_done_ = 0, bytes_done_ = 0;
  std::vector<std::string_view> next_;
};

}  // namespace sluice::resp
