// Reads what a caller says of its trace, as fields of a request. What is read must stand in the
// fields as their formats have it, by a second reading that cuts them at their dashes; and it must
// be the same for names in another case, and without the fields that say nothing of a trace.
//
// The input: a line for each field, `name:value`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "otlp/caller.h"

namespace {

using sluice::otlp::Caller;
using sluice::otlp::CallerFields;
using Pieces = std::vector<std::string>;

constexpr size_t fields_max = 32;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::string in_lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Pieces pieces_of(std::string_view text) {
  Pieces pieces;
  for (;;) {
    const size_t dash = text.find('-');
    pieces.emplace_back(text.substr(0, dash));
    if (dash == text.npos) return pieces;
    text.remove_prefix(dash + 1);
  }
}

bool is_hex(std::string_view text, size_t size) {
  return text.size() == size &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Not all of it zeros.
bool is_id(std::string_view text, size_t size) {
  return is_hex(text, size) && text.find_first_not_of('0') != std::string_view::npos;
}
bool is_trace(std::string_view text) {
  return is_id(text, 32) || is_id(text, 16);
}

uint64_t number(const std::string& hex) {
  return std::strtoull(hex.c_str(), nullptr, 16);
}

Caller caller_of(const std::string& trace, const std::string& span, std::optional<bool> sampled) {
  const std::string whole = std::string(32 - trace.size(), '0') + trace;
  return {{number(whole.substr(0, 16)), number(whole.substr(16))}, number(span), sampled};
}

std::optional<Caller> traceparent(std::string_view text) {
  const Pieces all = pieces_of(text);
  if (all.size() < 4 || !is_hex(all[0], 2) || all[0] == "ff" || !is_id(all[1], 32) ||
      !is_id(all[2], 16) || !is_hex(all[3], 2) || (all[0] == "00" && all.size() > 4))
    return std::nullopt;
  return caller_of(all[1], all[2], number(all[3]) % 2 == 1);
}

std::optional<Caller> b3(std::string_view text) {
  const Pieces all = pieces_of(text);
  std::optional<bool> sampled;
  const auto sets = [&](const std::string& piece) {
    if (piece == "1" || piece == "d") sampled = true;
    if (piece == "0") sampled = false;
    return sampled.has_value();
  };
  if (all.size() == 1) return sets(all[0]) ? std::optional(Caller{{}, 0, sampled}) : std::nullopt;
  if (all.size() > 4 || !is_trace(all[0]) || !is_id(all[1], 16) ||
      (all.size() > 2 && !sets(all[2])) || (all.size() > 3 && !is_id(all[3], 16)))
    return std::nullopt;
  return caller_of(all[0], all[1], sampled);
}

using Texts = std::vector<std::pair<std::string, std::string>>;

// The value of a field that came once; empty: none.
std::string value_of(const Texts& fields, std::string_view name) {
  for (const auto& [its, value] : fields)
    if (in_lower_case(its) == name) return value;
  return {};
}

Caller b3_fields(const Texts& fields) {
  const std::string trace = value_of(fields, "x-b3-traceid"),
                    span = value_of(fields, "x-b3-spanid"),
                    sampled = value_of(fields, "x-b3-sampled"),
                    flags = value_of(fields, "x-b3-flags");
  std::optional<bool> is_sampled;
  if (sampled == "0" || sampled == "false") is_sampled = false;
  if (sampled == "1" || sampled == "true" || flags == "1") is_sampled = true;
  if (!is_sampled && !sampled.empty()) return {};
  if (trace.empty() && span.empty()) return {{}, 0, is_sampled};
  if (!is_trace(trace) || !is_id(span, 16)) return {};
  return caller_of(trace, span, is_sampled);
}

Caller expected(const Texts& fields) {
  if (const auto its = traceparent(value_of(fields, "traceparent"))) return *its;
  if (const auto its = b3(value_of(fields, "b3"))) return *its;
  return b3_fields(fields);
}

// The value's bytes alone, so that a sanitizer finds a view that is too long.
class Copy {
 public:
  explicit Copy(std::string_view text) : bytes_(new char[text.size()]), size_(text.size()) {
    std::copy(text.begin(), text.end(), bytes_.get());
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

CallerFields taken(const Texts& fields, std::vector<Copy>& copies) {
  CallerFields to;
  for (const auto& [name, value] : fields) to.add(name, copies.emplace_back(value).view());
  return to;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Texts fields;
  while (!text.empty() && fields.size() < fields_max) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = std::min(line.find(':'), line.size());
    fields.emplace_back(line.substr(0, colon), line.substr(std::min(colon + 1, line.size())));
  }
  std::vector<Copy> copies;
  const CallerFields given = taken(fields, copies);
  const Caller caller = sluice::otlp::read_caller(given);
  require((caller.trace == sluice::otlp::TraceId()) == (caller.span == 0), "one id of two");
  if (given.twice) {
    require(caller == Caller(), "a field that came twice");
    return 0;
  }
  for (const auto& [name, value] : fields) {
    std::vector<Copy> alone;
    require(sluice::otlp::read_traceparent(alone.emplace_back(value).view()) == traceparent(value),
            "a traceparent");
    require(sluice::otlp::read_b3(alone.emplace_back(value).view()) == b3(value), "a b3");
  }
  // An empty field counts as not sent.
  std::erase_if(fields, [](const auto& field) { return field.second.empty(); });
  require(caller == expected(fields), "another reading");
  std::erase_if(fields, [](const auto& field) {
    return !sluice::otlp::is_caller_field(in_lower_case(field.first));
  });
  for (auto& [name, value] : fields) name = in_lower_case(name);
  require(sluice::otlp::read_caller(taken(fields, copies)) == caller, "names in another case");
  return 0;
}
