#include "policy/actor_name.h"

#include <algorithm>
#include <utility>

#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "policy/text.h"

namespace sluice::policy {
namespace {

constexpr std::string_view exact_begin = "exact(", any_expression_begin = "regex(";

std::string exact(std::string_view text) {
  return std::string(exact_begin) + std::string(text) + ")";
}

bool is_bare_network(std::string_view text) {
  return text.find('/') != text.npos && base::parse_ip_network(text);
}

// Is it several addresses or networks, apart by commas, without the brackets of a list?
bool is_bare_list(std::string_view text) {
  if (text.find(',') == text.npos) return false;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string_view one = text.substr(at, end - at);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (!base::parse_ip_network(one) && !base::parse_ip_address(one)) return false;
    at = end + 1;
  }
  return true;
}

// Would the text, stored as it is, be read as something else?
bool reads_otherwise(std::string_view text) {
  return text.find('*') != text.npos || text.starts_with('[') || text.starts_with(network_begin) ||
         text.starts_with(any_expression_begin) || text.starts_with(exact_begin);
}

std::string name_of_text(std::string_view text) {
  return reads_otherwise(text) || is_bare_network(text) || is_bare_list(text) ? exact(text)
                                                                              : std::string(text);
}

std::string in_list(const std::string& name) {
  const bool is_plain = !name.empty() && name.find_first_of(",[]\"'") == name.npos &&
                        name.front() != ' ' && name.back() != ' ';
  if (is_plain) return name;
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// Reads the values of "[a, 'b', \"c\"]".
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text), at_(1) {}

  base::Result<std::vector<std::string>> read() {
    std::vector<std::string> values;
    for (;;) {
      skip_blanks();
      std::string value;
      if (!(is_at('"') || is_at('\'') ? quoted(value) : plain(value))) return wrong();
      values.push_back(std::move(value));
      skip_blanks();
      if (is_at(']') && at_ + 1 == text_.size()) return values;
      if (!is_at(',')) return wrong();
      ++at_;
    }
  }

 private:
  bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void skip_blanks() {
    while (is_at(' ')) ++at_;
  }
  base::Problem wrong() const {
    return {in_ticks(text_) +
            " is not a list; write `[alice, bob]`, with a value in double quotes if it has a "
            "comma, a bracket or a quote, or `" +
            exact("TEXT") + "` for a text that begins with `[`"};
  }
  bool plain(std::string& value) {
    const size_t end = text_.find_first_of(",[]\"'", at_);
    if (end == text_.npos) return false;
    value = text_.substr(at_, end - at_);
    value.erase(value.find_last_not_of(' ') + 1);
    at_ = end;
    return !value.empty();
  }
  bool quoted(std::string& value) {
    const char quote = text_[at_++];
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == quote) {
        ++at_;
        if (quote == '"' || !is_at('\'')) return true;
      } else if (c == '\\' && quote == '"') {
        if (++at_ == text_.size()) return false;
        c = text_[at_];
        if (c != '"' && c != '\\' && c != '/') return false;
      }
      value += c;
    }
    return false;
  }

  std::string_view text_;
  size_t at_;
};

bool is_list(std::string_view written) {
  return written.starts_with('[');
}

}  // namespace

std::optional<base::IpNetwork> network_named(std::string_view text, NetworkProblem& problem) {
  const auto wrong = [&](std::string message, std::string remedy) {
    problem = {std::move(message), std::move(remedy)};
    return std::nullopt;
  };
  if (!text.ends_with(')')) return wrong(in_ticks(text) + " has no `)` at its end", "add it");
  const std::string_view inner =
      text.substr(network_begin.size(), text.size() - network_begin.size() - 1);
  bool bits_behind = false;
  const auto network = base::parse_ip_network(inner, &bits_behind);
  if (!network)
    return wrong(in_ticks(inner) + " is not a network",
                 "write an address of IPv4 or IPv6, a `/` and its number of bits, as in "
                 "`cidr(10.0.0.0/8)` or `cidr(2001:db8::/32)`");
  if (bits_behind)
    return wrong(
        in_ticks(inner) + " has address bits beyond the first " + std::to_string(network->bits),
        "write `cidr(" + to_text(*network) + ")`, or a longer number of bits");
  return network;
}

ActorValue ActorValue::of_text(std::string text) {
  ActorValue value;
  value.texts_.push_back(std::move(text));
  return value;
}

base::Done ActorValue::add(std::string_view written, bool is_kept) {
  if (written.starts_with(network_begin)) {
    NetworkProblem problem;
    const auto network = network_named(written, problem);
    if (!network) return base::Problem{problem.message + "; " + problem.remedy};
    networks_.push_back(*network);
  } else if (written.starts_with(any_expression_begin)) {
    return base::Problem{in_ticks(written) +
                         " is an expression, which an actor cannot be; write a text with `*`, a "
                         "list as `[alice, bob]` or a network as `cidr(10.0.0.0/8)`, or a rule "
                         "whose `match` has the expression"};
  } else if (written.starts_with(exact_begin)) {
    if (!written.ends_with(')'))
      return base::Problem{in_ticks(written) + " has no `)` at its end; add it"};
    written.remove_suffix(1);
    texts_.emplace_back(written.substr(exact_begin.size()));
  } else if (!is_kept && is_bare_network(written)) {
    return base::Problem{in_ticks(written) + " would be compared as a text; write `cidr(" +
                         std::string(written) + ")` for the addresses of the network, or `" +
                         exact(written) + "` for the text"};
  } else if (!is_kept && is_bare_list(written)) {
    return base::Problem{in_ticks(written) + " would be compared as one text; write `[" +
                         std::string(written) + "]` for each of these addresses, or `" +
                         exact(written) + "` for the text"};
  } else if (written.find('*') != written.npos) {
    patterns_.push_back(Pattern::wildcard(std::string(written)));
  } else {
    texts_.emplace_back(written);
  }
  return {};
}

void ActorValue::sort() {
  const auto name_of = [](const auto& one) { return one.text(); };
  std::ranges::sort(texts_);
  texts_.erase(std::unique(texts_.begin(), texts_.end()), texts_.end());
  std::ranges::sort(networks_, {}, [](const base::IpNetwork& one) { return to_text(one); });
  networks_.erase(std::unique(networks_.begin(), networks_.end()), networks_.end());
  std::ranges::sort(patterns_, {}, name_of);
  const auto is_same = [&](const Pattern& a, const Pattern& b) { return name_of(a) == name_of(b); };
  patterns_.erase(std::unique(patterns_.begin(), patterns_.end(), is_same), patterns_.end());
}

base::Result<ActorValue> ActorValue::read(std::string_view written, bool is_kept) {
  if (is_list(written)) {
    if (base::parse_ip_address(written))
      return base::Problem{in_ticks(written) + " would be a list; write `" + exact(written) +
                           "` for that text, or `[\"" + std::string(written) + "\", ...]`"};
    const auto values = ListReader(written).read();
    if (!values) return values.problem();
    return of_list(*values);
  }
  ActorValue value;
  if (base::Done done = value.add(written, is_kept); !done) return std::move(done).problem();
  return value;
}

base::Result<ActorValue> ActorValue::of_list(std::span<const std::string> written) {
  if (written.empty() || written.size() > list_values_max)
    return base::Problem{"a list has 1 to " + std::to_string(list_values_max) +
                         " values; set several overrides for more"};
  ActorValue value;
  for (const std::string& one : written) {
    if (is_list(one))
      return base::Problem{in_ticks(one) +
                           " is a list in a list; write its values in the outer "
                           "one, or `" +
                           exact(one) + "` for that text"};
    if (base::Done done = value.add(one, false); !done) return std::move(done).problem();
  }
  value.sort();
  return value;
}

std::string ActorValue::name() const {
  if (is_text() && !reads_otherwise(text())) return text();
  std::vector<std::string> names;
  for (const std::string& text : texts_) names.push_back(name_of_text(text));
  for (const base::IpNetwork& network : networks_)
    names.push_back(std::string(network_begin) + to_text(network) + ")");
  for (const Pattern& pattern : patterns_) names.push_back(pattern.text());
  if (names.size() == 1) return std::move(names.front());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "[" : ", ") + in_list(name);
  return list + "]";
}

bool ActorValue::matches(std::string_view value, MatchSteps& steps) const {
  if (std::binary_search(texts_.begin(), texts_.end(), value)) return true;
  if (!networks_.empty()) {
    const auto address = base::parse_ip_address(value);
    const auto has_it = [&](const base::IpNetwork& one) { return one.contains(*address); };
    if (address && std::ranges::any_of(networks_, has_it)) return true;
  }
  return std::ranges::any_of(patterns_,
                             [&](const Pattern& one) { return one.matches(value, steps); });
}

bool may_meet(const Pattern& a, const Pattern& b) {
  if (!a.alternatives().empty())
    return std::ranges::any_of(a.alternatives(),
                               [&](const Pattern& one) { return may_meet(one, b); });
  if (!b.alternatives().empty() || (b.exact() && !a.exact())) return may_meet(b, a);
  if (a.exact()) {
    MatchSteps steps;
    return b.impossible() || b.matches(a.text(), steps) || steps.over();
  }
  const auto is_open = [](const Pattern& one) {
    return one.any() || one.regex() != nullptr || one.impossible();
  };
  if (is_open(a) || is_open(b)) return true;
  if (a.network() != nullptr && b.network() != nullptr)
    return a.network()->contains(b.network()->address) ||
           b.network()->contains(a.network()->address);
  if (a.network() != nullptr) return may_meet(b, a);
  if (b.network() != nullptr) {  // brackets, and a port or a zone, may stand at an address
    const std::string_view address = a.literal().substr(0, a.literal().find('%'));
    return address.find_first_not_of("0123456789abcdefABCDEF.:[]") == address.npos;
  }
  // What a pattern of Divvy's matches may go on behind it.
  const auto end_of = [](const Pattern& one) {
    const bool is_whole = one.loose_expression().empty();
    return is_whole ? std::string_view(one.text()).substr(one.text().rfind('*') + 1) : "";
  };
  return (begins_with(a.literal(), b.literal()) || begins_with(b.literal(), a.literal())) &&
         (end_of(a).ends_with(end_of(b)) || end_of(b).ends_with(end_of(a)));
}

std::optional<std::string> ActorValue::kept_out_by(const Pattern& match) const {
  for (const std::string& text : texts_)
    if (!may_meet(Pattern::equal_to(text), match)) return name_of_text(text);
  for (const base::IpNetwork& network : networks_) {
    const auto its =
        Pattern::in_network(std::string(network_begin) + to_text(network) + ")", network);
    if (!may_meet(its, match)) return its.text();
  }
  for (const Pattern& pattern : patterns_)
    if (!may_meet(pattern, match)) return pattern.text();
  return std::nullopt;
}

std::string why_unmatched(std::span<const std::string> values, const Rule& rule) {
  const auto is_network = [](const Pattern& one) { return one.network() != nullptr; };
  for (size_t i = 0; i < values.size() && i < rule.actor.size(); ++i) {
    const auto value = ActorValue::read(values[i], true);
    for (const auto& [key, match] : rule.conditions) {
      const auto out = value && key == rule.actor[i] ? value->kept_out_by(match) : std::nullopt;
      if (!out) continue;
      const bool not_in =
          value->is_text() &&
          (is_network(match) || std::ranges::any_of(match.alternatives(), is_network));
      return (out->empty() ? "an empty text" : in_ticks(*out)) +
             (not_in ? " is not in " : " never fits ") + in_ticks(match.text()) +
             ", which the rule's match wants of `" + key + "`, so it would never hold; " +
             (not_in ? "name an address in it, or another rule"
                     : "write a value that fits, or name another rule");
    }
  }
  return "";
}

size_t ActorValue::literal_bytes() const {
  size_t least = SIZE_MAX;
  for (const std::string& text : texts_) least = std::min(least, text.size());
  for (const base::IpNetwork& network : networks_)
    least = std::min<size_t>(least, network.bits / 4);
  for (const Pattern& pattern : patterns_) {
    const std::string& text = pattern.text();
    const auto stars = std::count(text.begin(), text.end(), '*');
    least = std::min(least, text.size() - static_cast<size_t>(stars));
  }
  return least;
}

namespace {

// The part of "KEY=VALUE" after `=`, if the rule has the one entry KEY.
std::string_view without_key(std::string_view written, std::span<const std::string> keys) {
  if (keys.size() != 1 || !written.starts_with(keys.front())) return written;
  const std::string_view rest = written.substr(keys.front().size());
  return rest.starts_with('=') ? rest.substr(1) : written;
}

// A name that would be read without its beginning gets the key once more.
std::string with_key(std::string name, std::span<const std::string> keys) {
  if (without_key(name, keys).size() == name.size()) return name;
  return keys.front() + "=" + name;
}

std::string joined(std::span<const std::string> keys) {
  std::string all;
  for (const std::string& key : keys) all += (all.empty() ? "`" : ", `") + key + "`";
  return all;
}

}  // namespace

base::Result<std::vector<std::string>> read_actor_name(std::string_view written,
                                                       std::span<const std::string> keys) {
  auto values = key_values(without_key(written, keys), keys.size());
  if (!values && keys.empty())
    return base::Problem{"the rule has no actor, all requests share one counter; leave it out"};
  if (!values)
    return base::Problem{"must be the values of " + joined(keys) +
                         " joined by `|`, or an object with these keys (--actor KEY=VALUE for "
                         "each)"};
  for (std::string& value : *values) {
    const auto read = ActorValue::read(value);
    if (!read) return read.problem();
    value = read->name();
  }
  return *std::move(values);
}

base::Result<std::optional<std::string>> actor_named(std::string_view written,
                                                     std::span<const std::string> keys) {
  auto values = key_values(without_key(written, keys), keys.size());
  if (!values) return std::optional<std::string>();
  for (std::string& value : *values) {
    const auto read = ActorValue::read(value, true);
    if (!read) return read.problem();
    if (!read->is_text())
      return base::Problem{in_ticks(value) + " names several actors; name one, or write `" +
                           exact(value) + "` for that text"};
    value = read->text();
  }
  return std::optional(key_text(*values));
}

std::string actor_name(std::string_view key, std::span<const std::string> keys) {
  auto values = key_values(key, keys.size());
  if (!values) return std::string(key);
  for (std::string& value : *values) value = name_of_text(value);
  return with_key(key_text(*values), keys);
}

std::string override_name(std::string_view actor, std::span<const std::string> keys) {
  auto values = key_values(actor, keys.size());
  if (!values) return std::string(actor);
  for (std::string& value : *values)
    if (is_bare_network(value) || is_bare_list(value)) value = exact(value);
  return with_key(key_text(*values), keys);
}

}  // namespace sluice::policy
