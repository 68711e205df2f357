#include "protocol/envoy/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/json_writer.h"

namespace sluice::envoy {
namespace {

// A whole number of JSON, whose fraction and exponent may be written: `1.50e1` is 15.
struct WholeNumber {
  bool negative = false;
  uint64_t magnitude = 0;
};

// Removes the digits at the front of `text` and returns them.
std::string_view take_digits(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && text[n] >= '0' && text[n] <= '9') ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}
bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Appends a digit to the number. False: the result exceeds 64 bits.
bool push_digit(uint64_t& number, unsigned digit) {
  return !__builtin_mul_overflow(number, 10u, &number) &&
         !__builtin_add_overflow(number, digit, &number);
}

// `digits`.`fraction` times 10^exponent; the fraction has no trailing zeros. Nothing: the result is
// not whole, or exceeds 64 bits.
std::optional<uint64_t> scale(std::string_view digits, std::string_view fraction, int exponent) {
  int zeros = exponent - static_cast<int>(fraction.size());
  if (zeros < 0 && !fraction.empty()) return std::nullopt;
  for (; zeros < 0; ++zeros) {
    if (digits.size() < 2 || digits.back() != '0') return std::nullopt;
    digits.remove_suffix(1);
  }
  uint64_t number = 0;
  for (const std::string_view part : {digits, fraction})
    for (const char c : part)
      if (!push_digit(number, static_cast<unsigned>(c - '0'))) return std::nullopt;
  for (; zeros > 0; --zeros)
    if (!push_digit(number, 0)) return std::nullopt;
  return number;
}

// Nothing: not a number of JSON, not whole, or above 64 bits.
std::optional<WholeNumber> parse_whole_number(std::string_view text) {
  constexpr int exponent_max = 1'000'000;  // more digits than a message has room for
  if (text.size() > exponent_max) return std::nullopt;
  WholeNumber number;
  number.negative = take(text, '-');
  const std::string_view digits = take_digits(text);
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  std::string_view fraction;
  if (take(text, '.')) {
    fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
    while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  }
  int exponent = 0;
  if (take(text, 'e') || take(text, 'E')) {
    const bool down = take(text, '-');
    if (!down) take(text, '+');
    const std::string_view power = take_digits(text);
    if (power.empty()) return std::nullopt;
    const auto read = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (read.ec != std::errc() || exponent > exponent_max) exponent = exponent_max;
    if (down) exponent = -exponent;
  }
  if (!text.empty()) return std::nullopt;
  if (digits == "0" && fraction.empty()) return number;
  const std::optional<uint64_t> magnitude = scale(digits, fraction, exponent);
  if (!magnitude) return std::nullopt;
  number.magnitude = *magnitude;
  return number;
}

template <class Number>
std::optional<Number> to_unsigned(const std::optional<WholeNumber>& number) {
  if (!number || (number->negative && number->magnitude != 0) ||
      number->magnitude > std::numeric_limits<Number>::max())
    return std::nullopt;
  return static_cast<Number>(number->magnitude);
}

std::optional<int32_t> to_int32(const std::optional<WholeNumber>& number) {
  constexpr uint64_t bound = uint64_t{1} << 31;
  if (!number || number->magnitude >= bound + number->negative) return std::nullopt;
  const auto magnitude = static_cast<int64_t>(number->magnitude);
  return static_cast<int32_t>(number->negative ? -magnitude : magnitude);
}

std::optional<WireUnit> parse_unit(std::string_view name) {
  // An override's unit has no week.
  for (int32_t i = 0; i <= static_cast<int32_t>(WireUnit::year); ++i)
    if (unit_name(static_cast<WireUnit>(i)) == name) return static_cast<WireUnit>(i);
  return std::nullopt;
}

// What contains a value.
enum class Container : uint8_t {
  document,
  request,
  descriptors,
  descriptor,
  entries,
  entry,
  limit
};

enum class Field : uint8_t {
  document,
  domain,
  descriptors,
  request_hits,
  descriptor_item,
  entries,
  limit,
  descriptor_hits,
  is_negative_hits,
  entry_item,
  key,
  value,
  requests_per_unit,
  unit,
  unit_multiplier
};

struct FieldName {
  Container place;
  Field field;
  std::string_view name, original;
};

constexpr FieldName field_names[] = {
    {Container::request, Field::domain, "domain", "domain"},
    {Container::request, Field::descriptors, "descriptors", "descriptors"},
    {Container::request, Field::request_hits, "hitsAddend", "hits_addend"},
    {Container::descriptor, Field::entries, "entries", "entries"},
    {Container::descriptor, Field::limit, "limit", "limit"},
    {Container::descriptor, Field::descriptor_hits, "hitsAddend", "hits_addend"},
    {Container::descriptor, Field::is_negative_hits, "isNegativeHits", "is_negative_hits"},
    {Container::entry, Field::key, "key", "key"},
    {Container::entry, Field::value, "value", "value"},
    {Container::limit, Field::requests_per_unit, "requestsPerUnit", "requests_per_unit"},
    {Container::limit, Field::unit, "unit", "unit"},
    {Container::limit, Field::unit_multiplier, "unitMultiplier", "unit_multiplier"},
};

std::string_view name_of(Field field) {
  for (const FieldName& known : field_names)
    if (known.field == field) return known.name;
  return {};
}

}  // namespace

// Takes the events of nlohmann's parser, which does not recurse. Stops it at the first value that
// does not fit the message.
class JsonRequestReader {
 public:
  JsonRequestReader(std::string_view body, JsonRequest& into)
      : request_(into.request), texts_(into.texts_) {
    request_.clear();
    texts_.clear();
    texts_.reserve(body.size());  // no text is longer than its JSON, so views stay valid
  }

  JsonProblem& problem() { return problem_; }

  bool null() {
    // A field that is null counts as absent. The document and items of lists must not be null.
    if (field_ == Field::document || is_item(field_)) return refuse_value();
    return next();
  }
  bool boolean(bool truth) {
    if (field_ != Field::is_negative_hits) return refuse_value();
    descriptor().is_negative_hits = truth;
    return next();
  }
  bool number_integer(int64_t number) {
    const bool negative = number < 0;
    const auto bits = static_cast<uint64_t>(number);
    return take_number(WholeNumber{negative, negative ? -bits : bits});
  }
  bool number_unsigned(uint64_t number) { return take_number(WholeNumber{false, number}); }
  bool number_float(double, const std::string& text) {
    return take_number(parse_whole_number(text));
  }
  bool string(const std::string& text) {
    switch (field_) {
      case Field::domain:
        return take_text(text, request_.domain);
      case Field::key:
        return take_text(text, request_.entries.back().key);
      case Field::value:
        return take_text(text, request_.entries.back().value);
      case Field::unit: {
        const std::optional<WireUnit> unit = parse_unit(text);
        if (!unit) return refuse_value();
        descriptor().limit->unit = *unit;
        return next();
      }
      default:
        return take_number(parse_whole_number(text));
    }
  }
  bool binary(const std::vector<uint8_t>&) { return refuse_value(); }

  bool start_object(size_t) {
    switch (field_) {
      case Field::document:
        return open(Container::request);
      case Field::descriptor_item:
        if (request_.descriptors.size() == request_descriptors_max) return refuse_size();
        request_.descriptors.emplace_back().first_entry =
            static_cast<uint32_t>(request_.entries.size());
        return open(Container::descriptor);
      case Field::entry_item:
        if (descriptor().entry_count == descriptor_entries_max ||
            request_.entries.size() == request_entries_max)
          return refuse_size();
        ++descriptor().entry_count;
        request_.entries.emplace_back();
        return open(Container::entry);
      case Field::limit:
        descriptor().limit.emplace();
        return open(Container::limit);
      default:
        return refuse_value();
    }
  }
  bool key(const std::string& name) {
    for (const FieldName& known : field_names) {
      if (known.place != place() || (known.name != name && known.original != name)) continue;
      field_ = known.field;
      const uint32_t bit = 1u << static_cast<uint32_t>(known.field);
      if (levels_[depth_].seen & bit) return refuse("there twice");
      levels_[depth_].seen |= bit;
      return true;
    }
    return refuse_at(path(), "there is no such field: " + name);
  }
  bool end_object() { return close(); }
  bool start_array(size_t) {
    if (field_ == Field::descriptors) return open(Container::descriptors, Field::descriptor_item);
    if (field_ == Field::entries) return open(Container::entries, Field::entry_item);
    return refuse_value();
  }
  bool end_array() { return close(); }

  template <class Exception>
  bool parse_error(size_t position, const std::string&, const Exception&) {
    return refuse_at("", "not JSON at byte " + std::to_string(position));
  }

 private:
  struct Level {
    Container place = Container::document;
    uint32_t seen = 0;  // a bit for each field
  };

  static bool is_item(Field field) {
    return field == Field::descriptor_item || field == Field::entry_item;
  }

  Container place() const { return levels_[depth_].place; }
  Descriptor& descriptor() { return request_.descriptors.back(); }

  bool open(Container place, Field item = Field::document) {
    SLUICE_CHECK(depth_ + 1 < levels_.size());
    levels_[++depth_] = {place, 0};
    field_ = item;
    return true;
  }
  bool close() {
    --depth_;
    return next();
  }
  // Called after each value: in a list another item may follow, elsewhere a key or the end.
  bool next() {
    if (place() == Container::descriptors)
      field_ = Field::descriptor_item;
    else if (place() == Container::entries)
      field_ = Field::entry_item;
    return true;
  }

  bool take_text(std::string_view text, std::string_view& into) {
    SLUICE_CHECK(texts_.size() + text.size() <= texts_.capacity());
    const size_t from = texts_.size();
    texts_.append(text);
    into = std::string_view(texts_).substr(from);
    return next();
  }
  bool take_number(const std::optional<WholeNumber>& number) {
    switch (field_) {
      case Field::request_hits:
        return store(to_unsigned<uint32_t>(number), request_.hits_addend);
      case Field::descriptor_hits:
        return store(to_unsigned<uint64_t>(number), descriptor().hits_addend);
      case Field::requests_per_unit:
        return store(to_unsigned<uint32_t>(number), descriptor().limit->requests_per_unit);
      case Field::unit_multiplier:
        return store(to_unsigned<uint32_t>(number), descriptor().limit->unit_multiplier);
      case Field::unit: {
        const std::optional<int32_t> unit = to_int32(number);
        if (!unit) return refuse_value();
        descriptor().limit->unit = static_cast<WireUnit>(*unit);
        return next();
      }
      default:
        return refuse_value();
    }
  }
  template <class Number, class Into>
  bool store(const std::optional<Number>& number, Into& into) {
    if (!number) return refuse_value();
    into = *number;
    return next();
  }

  static std::string_view wanted(Field field) {
    switch (field) {
      case Field::domain:
      case Field::key:
      case Field::value:
        return "a text that is UTF-8";
      case Field::descriptors:
      case Field::entries:
        return "a list";
      case Field::is_negative_hits:
        return "true or false";
      case Field::request_hits:
      case Field::requests_per_unit:
      case Field::unit_multiplier:
        return "a whole number of at most 4294967295";
      case Field::descriptor_hits:
        return "a whole number of at most 18446744073709551615";
      case Field::unit:
        return "the name or the number of a unit";
      default:
        return "an object";
    }
  }
  bool refuse_value() { return refuse("must be " + std::string(wanted(field_))); }
  bool refuse(const std::string& what) {
    std::string at = path();
    if (const std::string_view name = name_of(field_); !name.empty()) {
      if (!at.empty()) at += '.';
      at += name;
    }
    return refuse_at(std::move(at), what);
  }
  bool refuse_size() {
    problem_.too_large = true;
    return refuse_at("", std::string(message_for(ReadProblem::too_large)));
  }
  bool refuse_at(std::string at, const std::string& what) {
    problem_.message = at.empty() ? "the request: " : std::move(at) + ": ";
    problem_.message += what;
    return false;
  }
  // The path to the innermost open object, such as `descriptors[1].limit`.
  std::string path() const {
    std::string path;
    for (size_t i = 1; i <= depth_; ++i) {
      switch (levels_[i].place) {
        case Container::descriptor:
          path = "descriptors[" + std::to_string(request_.descriptors.size() - 1) + "]";
          break;
        case Container::entry:
          path += ".entries[" + std::to_string(request_.descriptors.back().entry_count - 1) + "]";
          break;
        case Container::limit:
          path += ".limit";
          break;
        default:
          break;
      }
    }
    return path;
  }

  RateLimitRequest& request_;
  std::string& texts_;
  // Document, request, descriptors, descriptor, entries, entry.
  std::array<Level, 6> levels_{};
  size_t depth_ = 0;
  Field field_ = Field::document;  // of the value that comes next
  JsonProblem problem_;
};

std::optional<JsonProblem> read_json_request(std::string_view body, JsonRequest& into) {
  JsonRequestReader reader(body, into);
  if (body.size() > message_bytes_max) {
    reader.problem() = {true, std::string(message_for(ReadProblem::too_large))};
    return std::move(reader.problem());
  }
  // Checked here, because the parser skips a byte order mark and treats a zero byte as the end.
  if (body.starts_with('\xEF') || body.find('\0') != std::string_view::npos)
    return JsonProblem{false, "the request: not JSON"};
  if (nlohmann::json::sax_parse(body.begin(), body.end(), &reader)) return std::nullopt;
  return std::move(reader.problem());
}

namespace {

// A response in JSON leaves out the members that have their default value.
class ResponseWriter {
 public:
  explicit ResponseWriter(base::Buffer& out) : json_(out) {}

  void write(const RateLimitResponse& response) {
    json_.open_object();
    enumeration("overallCode", response.overall_code, code_name(response.overall_code));
    if (!response.statuses.empty()) {
      json_.name("statuses");
      json_.open_list();
      for (const DescriptorStatus& status : response.statuses) write(status);
      json_.close_list();
    }
    if (!response.response_headers_to_add.empty()) {
      json_.name("responseHeadersToAdd");
      json_.open_list();
      for (const HeaderValue& header : response.response_headers_to_add) {
        json_.open_object();
        text("key", header.key);
        text("value", header.value);
        json_.close_object();
      }
      json_.close_list();
    }
    if (response.dynamic_metadata) {
      json_.name("dynamicMetadata");
      write(*response.dynamic_metadata);
    }
    json_.close_object();
  }
  void write(const MetadataMap& map) {
    json_.open_object();
    for (const auto& [key, value] : map) {
      json_.name(key);
      write(value);
    }
    json_.close_object();
  }

 private:
  void write(const DescriptorStatus& status) {
    json_.open_object();
    enumeration("code", status.code, code_name(status.code));
    if (status.current_limit) {
      const CurrentLimit& limit = *status.current_limit;
      json_.name("currentLimit");
      json_.open_object();
      number("requestsPerUnit", limit.requests_per_unit);
      enumeration("unit", limit.unit, unit_name(limit.unit));
      text("name", limit.name);
      number("unitMultiplier", limit.unit_multiplier);
      json_.close_object();
    }
    number("limitRemaining", status.limit_remaining);
    if (status.seconds_until_reset)
      text("durationUntilReset", std::to_string(*status.seconds_until_reset) + "s");
    json_.close_object();
  }
  void write(const MetadataValue& value) {
    if (const auto* const truth = std::get_if<bool>(&value.data)) {
      json_.boolean(*truth);
    } else if (const auto* const number = std::get_if<double>(&value.data)) {
      // JSON has no infinite numbers; protobuf writes texts for them.
      if (std::isfinite(*number))
        json_.number(*number);
      else
        json_.text(std::isnan(*number) ? "NaN" : *number < 0 ? "-Infinity" : "Infinity");
    } else if (const auto* const text = std::get_if<std::string>(&value.data)) {
      json_.text(*text);
    } else if (const auto* const list = std::get_if<MetadataList>(&value.data)) {
      json_.open_list();
      for (const MetadataValue& item : *list) write(item);
      json_.close_list();
    } else if (const auto* const map = std::get_if<MetadataMap>(&value.data)) {
      write(*map);
    } else {
      json_.raw("null");
    }
  }

  void number(std::string_view key, uint32_t number) {
    if (number == 0) return;
    json_.name(key);
    json_.number(number);
  }
  void text(std::string_view key, std::string_view text) {
    if (text.empty()) return;
    json_.name(key);
    json_.text(text);
  }
  // A value without a name is written as a number.
  template <class Enumeration>
  void enumeration(std::string_view key, Enumeration value, std::string_view value_name) {
    if (value == Enumeration{}) return;
    json_.name(key);
    if (value_name.empty())
      json_.number(static_cast<int32_t>(value));
    else
      json_.text(value_name);
  }

  base::JsonWriter<base::Buffer> json_;
};

}  // namespace

void append_json_response(const RateLimitResponse& response, base::Buffer& out) {
  ResponseWriter(out).write(response);
}

void append_json(const MetadataMap& map, base::Buffer& out) {
  ResponseWriter(out).write(map);
}

}  // namespace sluice::envoy
