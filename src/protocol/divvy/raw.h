// The output of the readers of Divvy's two formats, which is the input of the validation: the rules
// of a file as written, with their places, and the report to which all three write. Internal to the
// reading of Divvy's files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/diagnostic.h"

namespace sluice::divvy {

struct LineAndColumn {
  size_t line = 0, column = 0;  // as in base::Diagnostic
};

// The value of creditLimit or resetSeconds.
struct RawNumber {
  enum class Kind { missing, wrong, integer };
  Kind kind = Kind::missing;
  int64_t value = 0;     // of an integer; its absolute value is at most base::bounds::quota_max
  std::string spelling;  // integer: as in the names of counters; wrong: as in the file
  std::string problem;   // wrong: "is not a number"
  LineAndColumn place;
};

// The value of a text field; empty: unset.
struct RawText {
  std::string value;
  LineAndColumn place;
};

struct RawRule {
  bool broken = false;   // the reader reported an error and made no rule; nothing else is set
  std::string spelling;  // "[ip=*]", also if the file is JSON
  LineAndColumn place;
  std::vector<std::pair<std::string, std::string>> operation;  // keys are distinct
  RawNumber credit_limit, reset_seconds;
  RawText actor_field, match_policy, label, comment;

  // The operation as people write it; "default" if it has no conditions.
  std::string pattern() const;
  std::string subject() const;
};

// The names of a rule's fields, for suggestions.
const std::vector<std::string_view>& divvy_fields();

class Report {
 public:
  Report(std::string_view file, base::Diagnostics& all) : file_(file), all_(all) {}

  void error(LineAndColumn place, std::string subject, std::string message,
             std::string remedy = {}) {
    add(base::Diagnostic::Severity::error, place, std::move(subject), std::move(message),
        std::move(remedy));
  }
  void warning(LineAndColumn place, std::string subject, std::string message,
               std::string remedy = {}) {
    add(base::Diagnostic::Severity::warning, place, std::move(subject), std::move(message),
        std::move(remedy));
  }
  void unknown_field(LineAndColumn place, std::string subject, std::string_view field);

  std::string_view file() const { return file_; }

 private:
  void add(base::Diagnostic::Severity severity, LineAndColumn place, std::string subject,
           std::string message, std::string remedy);

  std::string_view file_;
  base::Diagnostics& all_;
};

// The number that JavaScript's parseInt(text, 10) reads, with a warning about the rest of the text.
RawNumber leading_integer(std::string_view text, LineAndColumn place, std::string_view field,
                          const std::string& subject, Report& report);

// The readers. The text must be well-formed UTF-8 without a byte order mark. The rules are in the
// order of the file; errors are reported.
std::vector<RawRule> read_divvy_ini(std::string_view text, Report& report);
std::vector<RawRule> read_divvy_json(std::string_view text, Report& report);

}  // namespace sluice::divvy
