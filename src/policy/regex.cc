#include "policy/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/bounds.h"
#include "base/utf8.h"
#include "policy/javascript_regex.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

using base::bounds::regex_steps_max;
using base::bounds::regex_text_bytes_max;
using base::bounds::regex_work_max;

// Writes the text as PCRE2 has to see it: each ill-formed part as U+FFFD, and each character beyond
// U+FFFF as its two halves in UTF-16, three bytes each. Returns the size, at most three times that
// of the text.
size_t write_units(std::string_view text, char* to) {
  char* const begin = to;
  const auto half = [&](uint32_t unit) {
    *to++ = static_cast<char>(0xe0 | unit >> 12);
    *to++ = static_cast<char>(0x80 | (unit >> 6 & 0x3f));
    *to++ = static_cast<char>(0x80 | (unit & 0x3f));
  };
  for (size_t at = 0; at < text.size();) {
    const auto [size, valid] = base::utf8::first_sequence(text.substr(at));
    if (!valid) {
      to = std::ranges::copy(base::utf8::replacement, to).out;
    } else if (size < 4) {
      to = std::ranges::copy(text.substr(at, size), to).out;
    } else {
      const uint32_t value = decode(text, at).value;
      half(0xd7c0 + (value >> 10));
      half(0xdc00 + (value & 0x3ff));
    }
    at += size;
  }
  return static_cast<size_t>(to - begin);
}

// Would write_units change it?
bool has_other_units(std::string_view text) {
  const auto is_of_four = [](char c) { return static_cast<uint8_t>(c) >= 0xf0; };
  return std::ranges::any_of(text, is_of_four) || !base::utf8::is_valid(text);
}

// The memory of a thread for matching: one pair of offsets, the stack for backtracking, the limits.
struct Scratch {
  static constexpr size_t stack_bytes_min = 32 << 10, stack_bytes_max = 1 << 20;

  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(stack_bytes_min, stack_bytes_max, nullptr);

  Scratch() {
    if (context == nullptr) return;
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, stack_bytes_max >> 10);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

Scratch& scratch() {
  thread_local Scratch its;
  return its;
}

const PCRE2_UCHAR8* units(std::string_view text) {
  return reinterpret_cast<const PCRE2_UCHAR8*>(text.data());
}

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

base::Done Regex::compile(const std::string& expression) {
  // PCRE2_ALT_BSUX and PCRE2_ALLOW_EMPTY_CLASS would be JavaScript's behaviour as well, but the
  // translation leaves none of the syntax that they concern. Start optimizations are off because
  // the JIT of PCRE2 10.42 has a defect with them: it misses "abba" with (?:ab|a).c*b.
  constexpr uint32_t options =
      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_START_OPTIMIZE;
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context) return base::Problem{"there is no memory for it"};
  pcre2_set_compile_extra_options(context.get(), PCRE2_EXTRA_ALLOW_SURROGATE_ESCAPES);
  int number = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(units(expression), expression.size(), options, &number, &offset,
                            context.get()));
  if (code_) return {};
  std::array<PCRE2_UCHAR8, 256> text{};
  pcre2_get_error_message(number, text.data(), text.size());
  return base::Problem{reinterpret_cast<const char*>(text.data())};
}

base::Result<std::shared_ptr<const Regex>> Regex::javascript(std::string_view source,
                                                             std::string_view flags) {
  if (source.size() > base::bounds::regex_source_bytes_max)
    return base::Problem{"it has " + std::to_string(source.size()) + " bytes; " +
                         std::to_string(base::bounds::regex_source_bytes_max) + " are the most"};
  for (const char flag : flags) {
    if (std::string_view("gim").find(flag) == std::string_view::npos)
      return base::Problem{"the flag `" + std::string(1, flag) + "` is not one of g, i and m"};
    if (std::count(flags.begin(), flags.end(), flag) > 1)
      return base::Problem{"the flag `" + std::string(1, flag) + "` stands twice"};
  }
  const bool ignore_case = flags.find('i') != std::string_view::npos;
  const bool multiline = flags.find('m') != std::string_view::npos;
  auto expression = pcre2_from_javascript(source, multiline, ignore_case);
  if (!expression) return std::move(expression).problem();
  const std::shared_ptr<Regex> regex(new Regex);
  if (base::Done done = regex->compile(*expression); !done) return std::move(done).problem();
  uint32_t found = 0;
  pcre2_pattern_info(regex->code_.get(), PCRE2_INFO_ALLOPTIONS, &found);
  regex->anywhere_ = (found & PCRE2_ANCHORED) == 0;
  // PCRE2's limit of steps applies separately to each place where a match may begin. So the places
  // become part of the expression, which then begins at one place only.
  if (regex->anywhere_) {
    base::Done done = regex->compile("^(?s:.)*?(?:" + *expression + ")");
    if (!done) return std::move(done).problem();
  }
  regex->jit_ = pcre2_jit_compile(regex->code_.get(), PCRE2_JIT_COMPLETE) == 0;
  return std::shared_ptr<const Regex>(regex);
}

Regex::Found Regex::find(std::string_view text) const {
  const Scratch& its = scratch();
  if (its.data == nullptr || its.context == nullptr) return Found::unknown;
  // Without the JIT a step costs about ten times as much.
  const size_t steps = std::min(regex_steps_max, regex_work_max / (text.size() + 1));
  pcre2_set_match_limit(its.context, static_cast<uint32_t>(jit_ ? steps : steps / 10));
  const auto match = jit_ ? pcre2_jit_match : pcre2_match;
  const int result =
      match(code_.get(), units(text), text.size(), 0, PCRE2_NO_UTF_CHECK, its.data, its.context);
  if (result >= 0) return Found::yes;
  return result == PCRE2_ERROR_NOMATCH ? Found::no : Found::unknown;
}

bool Regex::matches(std::string_view text, bool& gave_up) const {
  std::array<char, base::utf8::replacement.size() * regex_text_bytes_max> other;
  const bool is_short = text.size() <= regex_text_bytes_max;
  Found found = Found::unknown;
  if (has_other_units(text)) {
    if (is_short) found = find({other.data(), write_units(text, other.data())});
  } else if (is_short || !anywhere_) {
    found = find(text);
  }
  gave_up = found == Found::unknown;
  if (gave_up) given_up_.fetch_add(1, std::memory_order_relaxed);
  return found == Found::yes;
}

}  // namespace sluice::policy
