#include "protocol/divvy/raw.h"

#include "base/units.h"
#include "policy/text.h"

namespace sluice::divvy {

std::string RawRule::pattern() const {
  if (operation.empty()) return "default";
  std::string text;
  for (const auto& [key, value] : operation) {
    if (!text.empty()) text += ' ';
    text += key + '=' + value;
  }
  return text;
}

std::string RawRule::subject() const {
  return "rule " + policy::shortened(spelling, 200);
}

const std::vector<std::string_view>& divvy_fields() {
  static const std::vector<std::string_view> fields = {
      "operation", "creditLimit", "resetSeconds", "actorField", "matchPolicy", "label", "comment"};
  return fields;
}

void Report::unknown_field(LineAndColumn place, std::string subject, std::string_view field) {
  const std::string_view nearest = base::nearest_word(field, divvy_fields());
  warning(place, std::move(subject),
          "`" + policy::shortened(field, 64) + "` is not a field of a rule and has no effect",
          nearest.empty() || nearest == field ? "remove it"
                                              : "did you mean `" + std::string(nearest) + "`?");
}

void Report::add(base::Diagnostic::Severity severity, LineAndColumn place, std::string subject,
                 std::string message, std::string remedy) {
  all_.push_back({.severity = severity,
                  .file = std::string(file_),
                  .line = place.line,
                  .column = place.column,
                  .subject = std::move(subject),
                  .message = std::move(message),
                  .remedy = std::move(remedy)});
}

RawNumber leading_integer(std::string_view text, LineAndColumn place, std::string_view field,
                          const std::string& subject, Report& report) {
  RawNumber number;
  number.kind = RawNumber::Kind::wrong;
  number.spelling = policy::shortened(text, 64);
  number.place = place;
  const std::string_view trimmed = policy::trim(text);
  const bool negative = trimmed.starts_with('-');
  size_t at = negative || trimmed.starts_with('+') ? 1 : 0;
  const size_t digits = at;
  bool above = false;
  for (; at < trimmed.size() && trimmed[at] >= '0' && trimmed[at] <= '9'; ++at) {
    if (!above) number.value = number.value * 10 + (trimmed[at] - '0');
    above |= number.value > base::bounds::quota_max;
  }
  if (at == digits) {
    number.problem = "is not a number";
    return number;
  }
  if (above) {
    number.problem = "must be at most " + std::to_string(base::bounds::quota_max);
    return number;
  }
  if (negative) number.value = -number.value;
  number.kind = RawNumber::Kind::integer;
  const std::string_view left_out = trimmed.substr(at);
  // For a duration such as `5m` the leading digits alone would mean another length.
  std::optional<base::Duration> length;
  if (left_out != "s") length = base::parse_duration(trimmed);
  if (field == "resetSeconds" && length) {
    number.kind = RawNumber::Kind::wrong;
    const int64_t seconds = length->us / 1'000'000 + (length->us % 1'000'000 == 0 ? 0 : 1);
    number.problem =
        "must be a number of seconds without a unit; write `" + std::to_string(seconds) + "`";
    return number;
  }
  const std::string taken = std::to_string(number.value);
  if (!left_out.empty()) {
    std::string message(field);
    message += " `" + number.spelling + "` is read as " + taken;
    const bool exponent = left_out.size() > 1 && (left_out[0] == 'e' || left_out[0] == 'E');
    if (exponent) message += ", NOT with its exponent";
    message +=
        ": only leading digits count, `" + policy::shortened(left_out, 64) + "` has no effect";
    report.warning(place, subject, std::move(message),
                   exponent ? "write the number with all its digits" : "write `" + taken + "`");
  }
  number.spelling = taken;
  return number;
}

}  // namespace sluice::divvy
