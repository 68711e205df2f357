// A regular expression with JavaScript's meaning over the values of requests, on PCRE2. Immutable
// and shared by all threads; matching allocates nothing once its thread has matched before, and
// costs at most a millisecond or so whatever the value: then it gives up, which counts as no match
// and is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct pcre2_real_code_8;

namespace sluice::policy {

class Regex {
 public:
  // `source` as between the slashes. Of the flags, g changes nothing (there is one question, asked
  // again each time), i and m mean what they mean; others are refused, as by limitd's YAML reader.
  static base::Result<std::shared_ptr<const Regex>> javascript(std::string_view source,
                                                               std::string_view flags);

  // Is it found anywhere in the text? Text that is not UTF-8 reads with U+FFFD in place of what is
  // ill-formed.
  bool matches(std::string_view text) const {
    bool gave_up = false;
    return matches(text, gave_up);
  }
  bool matches(std::string_view text, bool& gave_up) const;

  // How often it gave up: past base::bounds::regex_steps_max and what stands beside
  // it.
  uint64_t given_up() const { return given_up_.load(std::memory_order_relaxed); }

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  enum class Found { yes, no, unknown };

  Regex() = default;
  base::Done compile(const std::string& expression);
  Found find(std::string_view text) const;

  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool anywhere_ = false;  // it may begin at more than one place
  bool jit_ = false;
  mutable std::atomic<uint64_t> given_up_{0};
};

}  // namespace sluice::policy
