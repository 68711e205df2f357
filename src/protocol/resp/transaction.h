// The commands between MULTI and EXEC, stored until they are executed or discarded. Owned by a
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
  // The bounds of a transaction. Beyond either the command is refused, and EXEC aborts.
  static constexpr size_t commands_max = 16'384;
  static constexpr size_t bytes_max = size_t{1} << 20;

  // False: it does not fit.
  bool add(std::span<const std::string_view> words);
  // Called if a command has an error: EXEC will abort.
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

  size_t size() const { return counts_.size(); }
  // Bytes of memory that it holds.
  size_t bytes() const { return text_.size() + lengths_.size() * sizeof(uint32_t); }

  // Were all of its commands executed?
  bool is_done() const { return done_ == counts_.size(); }
  // The words of the next command. The list is valid until the next call, the words as long as this
  // object.
  std::span<const std::string_view> next();
  // Removes the next command, which was executed.
  void pop();

 private:
  std::string text_;               // all words, one after the other
  std::vector<uint32_t> lengths_;  // of each word
  std::vector<uint32_t> counts_;   // the number of words of each command
  bool failed_ = false;
  // Of the executed commands: their number, words and bytes.
  size_t done_ = 0, words_done_ = 0, bytes_done_ = 0;
  std::vector<std::string_view> next_;
};

}  // namespace sluice::resp
