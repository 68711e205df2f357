#include "policy/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "policy/find_piece.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

// Could the run of the first star, which contains no line terminator, cover all of `text`?
bool is_one_line(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n' || c == '\r') return false;
    if (c != '\xE2' || text.size() - at < 3 || text[at + 1] != '\x80') continue;
    if (text[at + 2] == '\xA8' || text[at + 2] == '\xA9') return false;
  }
  return true;
}

bool is_line_terminator(uint32_t c) {
  return c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029;
}

// The regular expression that Divvy 1.7.1 makes of the pattern, as its error texts show it; always
// one line.
std::string expression_of(std::string_view text) {
  std::string out = "/^";
  bool first = true;
  for (const char c : text) {
    if (c == '*') {
      out += first ? ".*" : "*";
      first = false;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      if (std::string_view("-[]{}()+?.,\\^$|#").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out + '/';
}

struct Element {
  uint32_t character;
  bool repeated;
};

}  // namespace

Pattern Pattern::loose(std::string text) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  const std::string_view all = pattern.text_;
  const size_t star = all.find('*');
  pattern.prefix_size_ = static_cast<uint32_t>(std::min(star, all.size()));
  if (star == std::string_view::npos) return pattern;
  if (all.size() == 1) {
    pattern.kind_ = Kind::optional;
    return pattern;
  }
  if (all.find("**", star) != std::string_view::npos) {
    auto program = std::make_shared<Program>();
    program->error = "Invalid regular expression: " + expression_of(all) + ": Nothing to repeat";
    pattern.program_ = std::move(program);
    pattern.kind_ = Kind::impossible;
    return pattern;
  }

  std::vector<Element> elements;
  const std::string_view rest = all.substr(star + 1);
  for (size_t at = 0; at < rest.size();) {
    const CodePoint c = decode(rest, at);
    at += c.size;
    const bool repeated = at < rest.size() && rest[at] == '*';
    if (repeated) ++at;
    elements.push_back({c.value, repeated});
  }
  // The pattern need not match the end of the value, so a last element that may be missing has no
  // effect.
  while (!elements.empty() && elements.back().repeated) elements.pop_back();
  if (elements.empty()) {
    pattern.kind_ = Kind::prefix;
    return pattern;
  }
  const bool repeats =
      std::any_of(elements.begin(), elements.end(), [](const Element& e) { return e.repeated; });
  if (!repeats) {
    size_t size = 0;
    for (size_t i = 0; i < elements.size(); ++i) size += decode(rest, size).size;
    pattern.rest_size_ = static_cast<uint32_t>(size);
    pattern.kind_ = Kind::search;
    return pattern;
  }
  if (elements.size() > elements_max) {
    pattern.kind_ = Kind::oversized;
    return pattern;
  }

  auto program = std::make_shared<Program>();
  program->elements = elements.size();
  program->words = elements.size() / 64 + 1;
  std::vector<uint32_t>& characters = program->characters;
  for (const Element& e : elements) characters.push_back(e.character);
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  program->rows.resize((characters.size() + 1) * program->words);
  program->repeated.resize(program->words);
  for (size_t i = 0; i < elements.size(); ++i) {
    const uint32_t character = elements[i].character;
    const auto found = std::lower_bound(characters.begin(), characters.end(), character);
    const auto row = static_cast<size_t>(found - characters.begin()) + 1;
    const uint64_t bit = uint64_t{1} << (i % 64);
    program->rows[row * program->words + i / 64] |= bit;
    if (elements[i].repeated) program->repeated[i / 64] |= bit;
    if (character < program->ascii.size()) program->ascii[character] = static_cast<uint16_t>(row);
  }
  pattern.program_ = std::move(program);
  pattern.kind_ = Kind::repeats;
  return pattern;
}

Pattern Pattern::wildcard(std::string text) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  const std::string_view all = pattern.text_;
  const size_t star = all.find('*');
  pattern.prefix_size_ = static_cast<uint32_t>(std::min(star, all.size()));
  if (star == std::string_view::npos) return pattern;
  if (all.find_first_not_of('*', star) != std::string_view::npos) {
    pattern.kind_ = Kind::wildcard;
  } else {
    pattern.kind_ = star == 0 ? Kind::present : Kind::prefix;
  }
  return pattern;
}

Pattern Pattern::equal_to(std::string text) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  pattern.prefix_size_ = static_cast<uint32_t>(pattern.text_.size());
  return pattern;
}

Pattern Pattern::regex(std::string text, std::shared_ptr<const Regex> regex) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  auto program = std::make_shared<Program>();
  program->regex = std::move(regex);
  pattern.program_ = std::move(program);
  pattern.kind_ = Kind::regex;
  return pattern;
}

Pattern Pattern::in_network(std::string text, const base::IpNetwork& network) {
  Pattern pattern;
  pattern.text_ = std::move(text);
  auto program = std::make_shared<Program>();
  program->network = network;
  pattern.program_ = std::move(program);
  pattern.kind_ = Kind::network;
  return pattern;
}

Pattern Pattern::any_of(std::vector<Pattern> alternatives) {
  Pattern pattern;
  for (const Pattern& one : alternatives)
    pattern.text_ += (pattern.text_.empty() ? "[" : ", ") + one.text();
  pattern.text_ += ']';
  auto program = std::make_shared<Program>();
  program->alternatives = std::move(alternatives);
  pattern.program_ = std::move(program);
  pattern.kind_ = Kind::any_of;
  return pattern;
}

std::string Pattern::loose_expression() const {
  const bool is_loose = kind_ == Kind::search || kind_ == Kind::repeats;
  return is_loose ? expression_of(text_) : "";
}

std::span<const Pattern> Pattern::alternatives() const {
  if (kind_ != Kind::any_of) return {};
  return program_->alternatives;
}

std::string Pattern::sample() const {
  if (kind_ == Kind::any_of) return program_->alternatives.front().sample();
  if (kind_ == Kind::network) return to_text(base::IpNetwork{program_->network.address, 128});
  return text_;
}

bool Pattern::covers(const Pattern& other) const {
  if (any()) return true;
  if (other.kind_ == Kind::any_of)
    return std::ranges::all_of(other.alternatives(),
                               [&](const Pattern& one) { return covers(one); });
  if (kind_ == Kind::any_of)
    return std::ranges::any_of(alternatives(),
                               [&](const Pattern& one) { return one.covers(other); });
  if (kind_ == other.kind_ && text_ == other.text_) return true;
  if (kind_ == Kind::prefix) return begins_with(other.literal(), literal());
  if (kind_ != Kind::network) return false;
  const base::IpNetwork* const inner = other.network();
  if (inner == nullptr) return other.exact() && matches(other.text());
  return inner->bits >= program_->network.bits && program_->network.contains(inner->address);
}

// Follows all ways to match at once. Bit i of `at`: the elements before element i can match the
// text so far. The carry of an addition skips elements that may be missing.
template <size_t words_known>
bool Pattern::matches_repeats(std::string_view value) const {
  const Program& program = *program_;
  const size_t words = words_known > 0 ? words_known : program.words;
  constexpr size_t words_max = words_known > 0 ? words_known : elements_max / 64 + 1;
  std::array<uint64_t, words_max> at{};
  bool in_run = true;
  const auto enter = [&] {
    if (in_run) at[0] |= 1;
    bool carry = false;
    for (size_t w = 0; w < words; ++w) {
      const uint64_t repeated = program.repeated[w];
      uint64_t sum = 0;
      const bool over = __builtin_add_overflow(repeated, at[w] & repeated, &sum);
      const bool over_carry = __builtin_add_overflow(sum, uint64_t{carry}, &sum);
      at[w] |= sum ^ repeated;
      carry = over || over_carry;
    }
  };
  const auto done = [&] { return (at[program.elements / 64] >> (program.elements % 64) & 1) != 0; };

  enter();
  for (size_t v = 0; v < value.size() && !done();) {
    const CodePoint c = decode(value, v);
    v += c.size;
    size_t row = 0;
    if (c.value < program.ascii.size()) {
      row = program.ascii[c.value];
    } else {
      const auto found =
          std::lower_bound(program.characters.begin(), program.characters.end(), c.value);
      if (found != program.characters.end() && *found == c.value) {
        row = static_cast<size_t>(found - program.characters.begin()) + 1;
      }
    }
    if (is_line_terminator(c.value)) in_run = false;
    const uint64_t* mask = program.rows.data() + row * words;
    uint64_t carry = 0, any = 0;
    for (size_t w = 0; w < words; ++w) {
      const uint64_t stay = at[w] & mask[w] & program.repeated[w];
      const uint64_t move = at[w] & mask[w] & ~program.repeated[w];
      at[w] = stay | move << 1 | carry;
      carry = move >> 63;
      any |= at[w];
    }
    if (any == 0 && !in_run) return false;
    enter();
  }
  return done();
}

bool Pattern::matches_regex(std::string_view value, MatchSteps& steps) const {
  if (!steps.take(value.size())) return false;
  bool gave_up = false;
  const bool fits = program_->regex->matches(value, gave_up);
  if (gave_up) steps.spend(base::bounds::match_steps_of_regex);
  return fits;
}

bool Pattern::matches_any(std::string_view value, MatchSteps& steps) const {
  const auto fits = [&](const Pattern& one) { return one.matches(value, steps); };
  return std::ranges::any_of(program_->alternatives, fits);
}

bool Pattern::is_in_network(std::string_view value) const {
  const auto address = base::parse_ip_address(value);
  return address && program_->network.contains(*address);
}

bool Pattern::matches_present(std::string_view value, MatchSteps& steps) const {
  switch (kind_) {
    case Kind::optional:
    case Kind::present:
      return true;
    case Kind::impossible:
    case Kind::oversized:
      return false;
    case Kind::regex:
      return matches_regex(value, steps);
    case Kind::network:
      return is_in_network(value);
    case Kind::any_of:
      return matches_any(value, steps);
    default:
      break;
  }
  if (!begins_with(value, literal())) return false;
  const std::string_view behind = value.substr(prefix_size_);
  const uint64_t weight = kind_ == Kind::repeats ? 2 * program_->words : 1;
  if (!steps.take(behind.size(), weight)) return false;
  uint64_t looked_at = 0;
  if (kind_ == Kind::wildcard)
    return wildcard_fits(std::string_view(text_).substr(prefix_size_), behind, looked_at);
  if (kind_ == Kind::repeats) {
    return program_->words == 1 ? matches_repeats<1>(behind) : matches_repeats<0>(behind);
  }
  // If the run reaches any occurrence, it reaches the first.
  const size_t found =
      find_piece(behind, std::string_view(text_).substr(prefix_size_ + 1, rest_size_), looked_at);
  return found != std::string_view::npos && is_one_line(behind.substr(0, found));
}

}  // namespace sluice::policy
