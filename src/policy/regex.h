// A regular expression with JavaScript's meaning, for the values of requests, on PCRE2. Immutable
// and shared by all threads. Only a thread's first match allocates. A match costs at most about a
// millisecond, whatever the value: beyond that it gives up, which is counted and means no match.
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
  // `source` is the text between the slashes. The flags i and m have their usual meaning, g has no
  // effect (each match is independent), and others are refused, as by limitd's YAML reader.
  static base::Result<std::shared_ptr<const Regex>> javascript(std::string_view source,
                                                               std::string_view flags);

  // Does it match anywhere in the text? Ill-formed parts of text that is not UTF-8 are read as
  // U+FFFD, and a character beyond U+FFFF as JavaScript reads it, as two halves.
  bool matches(std::string_view text) const {
    bool gave_up = false;
    return matches(text, gave_up);
  }
  bool matches(std::string_view text, bool& gave_up) const;

  // How often it gave up, because of base::bounds::regex_steps_max or the bounds beside it.
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
  bool anywhere_ = false;  // a match may begin at more than one place
  bool jit_ = false;
  mutable std::atomic<uint64_t> given_up_{0};
};

}  // namespace sluice::policy
