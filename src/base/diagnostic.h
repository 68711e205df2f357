// What a reader of configuration has to say: where something is, what is wrong with it, and what to
// do about it. Plain values; collected in order, errors and warnings together, so that a user sees
// everything in one run.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::base {

struct Diagnostic {
  enum class Severity { error, warning };
  Severity severity = Severity::error;
  std::string file;   // as the user named it; empty: none
  size_t line = 0;    // from 1; 0: the file as a whole
  size_t column = 0;  // from 1, in bytes; 0: the line as a whole
  std::string
      subject;  // what it is about, spelt as in the file: "rule [ip=*]", "workers"; empty: none
  std::string message;  // what is wrong
  std::string remedy;   // what to add or change; empty: the message says it
};

// "rules.ini:12:3: error: rule [ip=*]: creditLimit is missing; add `creditLimit = N`". Always one
// line: control characters that came from the file are shown escaped.
std::string to_string(const Diagnostic& d);

using Diagnostics = std::vector<Diagnostic>;

bool has_errors(const Diagnostics& all);

// The word of `known` that is nearest to `word` (edit distance of at most a third of its length, at
// least 1, and something in common), or "". Words above 64 bytes are not a typing mistake and
// have no neighbours.
std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace sluice::base
