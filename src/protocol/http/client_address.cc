#include "protocol/http/client_address.h"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/http_field.h"

namespace sluice::http {
namespace {

std::string_view without_entry_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Finds the client's address among entries that are given from the last (the nearest proxy's) to
// the first.
class ForwardedWalk {
 public:
  ForwardedWalk(const TrustedProxies& trusted, unsigned depth) : trusted_(trusted), depth_(depth) {}

  // Takes the next entry. False: no further entry is needed.
  bool pass(std::string_view entry) {
    ++entries_;
    if (depth_ > 0) {
      if (entries_ == depth_) client_ = parse_address(entry);
      return entries_ < depth_;
    }
    const auto address = parse_address(entry);
    if (!address) return false;
    client_ = address;
    return entries_ < forwarded_entries_max && trusted_.contains(*address);
  }
  const std::optional<IpAddress>& client() const { return client_; }

 private:
  const TrustedProxies& trusted_;
  const unsigned depth_;
  size_t entries_ = 0;
  std::optional<IpAddress> client_;
};

// The elements of the field Forwarded (RFC 7239), from the first to the last.
class ForwardedElements {
 public:
  explicit ForwardedElements(std::string_view text) : text_(text) {}

  // Sets `node` to the next element's `for`; empty: it has none, or the element is malformed.
  // False: there are no more elements.
  bool next(std::string_view& node) {
    while (!is_at_end()) {
      bool is_empty = true, is_sound = true, has_node = false;
      node = {};
      while (!is_at_end() && text_[at_] != ',') {
        if (text_[at_] == ';' || text_[at_] == ' ' || text_[at_] == '\t') {
          ++at_;
          continue;
        }
        is_empty = false;
        is_sound = take_pair(node, has_node) && is_sound;
      }
      if (!is_at_end()) ++at_;
      if (is_empty) continue;
      if (!is_sound) node = {};
      return true;
    }
    return false;
  }
  // Did a quoted text that was passed have no end?
  bool was_open() const { return was_open_; }

 private:
  bool is_at_end() const { return at_ == text_.size(); }

  // Skips to a comma or semicolon that is not quoted. False: a quoted text has no end.
  bool skip_to_separator() {
    for (; !is_at_end() && text_[at_] != ',' && text_[at_] != ';'; ++at_)
      if (text_[at_] == '"' && !skip_quoted()) return false;
    return true;
  }
  // Skips from a quote to the closing one. False: it is missing, and the text is at its end.
  bool skip_quoted() {
    for (++at_; !is_at_end() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    was_open_ = was_open_ || is_at_end();
    return !is_at_end();
  }
  // Reads `name=value` up to a separator. False: it is malformed, or a second `for`.
  bool take_pair(std::string_view& node, bool& has_node) {
    const size_t begin = at_;
    while (!is_at_end() && std::string_view("=,;\"").find(text_[at_]) == std::string_view::npos)
      ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    const bool has_value = !is_at_end() && text_[at_] == '=';
    if (has_value) ++at_;
    const std::string_view value = take_value();
    if (name.empty() || !has_value || value.empty()) return false;
    if (!wire::is_http_name(name, "for")) return true;
    node = without_hidden_port(value);
    return !std::exchange(has_node, true);
  }
  // Reads a value up to a separator, and removes its quotes. Empty: it is missing or malformed.
  std::string_view take_value() {
    const size_t begin = at_;
    const bool is_quoted = !is_at_end() && text_[at_] == '"';
    if (is_quoted && !skip_quoted()) return {};
    if (is_quoted) ++at_;
    const size_t quoted_size = at_ - begin;
    if (!skip_to_separator()) return {};
    const std::string_view value = without_entry_blanks(text_.substr(begin, at_ - begin));
    if (!is_quoted) return value.find('"') == value.npos ? value : std::string_view();
    return value.size() == quoted_size ? value.substr(1, quoted_size - 2) : std::string_view();
  }
  // RFC 7239, 6: a port may be a name that begins with `_`.
  static std::string_view without_hidden_port(std::string_view node) {
    const size_t port = node.rfind(":_");
    if (port == node.npos) return node;
    const std::string_view name = node.substr(port + 1);
    return name.find(']') == name.npos ? node.substr(0, port) : node;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool was_open_ = false;
};

}  // namespace

TrustedProxies TrustedProxies::loopback() {
  TrustedProxies trusted;
  trusted.add("127.0.0.0/8");
  trusted.add("::1");
  return trusted;
}

bool TrustedProxies::add(std::string_view text) {
  if (text == "unix") return unix_ = true;
  const auto range = base::parse_ip_network(text);
  if (range) ranges_.push_back(*range);
  return range.has_value();
}

bool TrustedProxies::contains(const IpAddress& address) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const base::IpNetwork& range) { return range.contains(address); });
}

std::vector<std::string> TrustedProxies::texts() const {
  std::vector<std::string> all;
  for (const base::IpNetwork& range : ranges_) all.push_back(to_text(range));
  if (unix_) all.emplace_back("unix");
  return all;
}

std::optional<IpAddress> forwarded_client(std::string_view forwarded_for,
                                          const TrustedProxies& trusted, unsigned depth) {
  ForwardedWalk walk(trusted, depth);
  while (!forwarded_for.empty()) {
    const size_t begin = forwarded_for.rfind(',') + 1;  // npos + 1 is 0
    const std::string_view entry = without_entry_blanks(forwarded_for.substr(begin));
    forwarded_for = forwarded_for.substr(0, begin == 0 ? 0 : begin - 1);
    if (!entry.empty() && !walk.pass(entry)) break;
  }
  return walk.client();
}

std::optional<IpAddress> forwarded_element_client(std::string_view forwarded,
                                                  const TrustedProxies& trusted, unsigned depth) {
  // Quoted texts may have commas, so the elements are read from the first one on, and the last ones
  // are kept.
  std::array<std::string_view, forwarded_entries_max> last;
  size_t count = 0;
  while (!forwarded.empty()) {
    const std::string_view line = forwarded.substr(0, forwarded.find('\n'));
    forwarded.remove_prefix(std::min(forwarded.size(), line.size() + 1));
    ForwardedElements elements(line);
    for (std::string_view node; elements.next(node); ++count) last[count % last.size()] = node;
    if (elements.was_open()) return std::nullopt;
  }
  ForwardedWalk walk(trusted, depth);
  for (size_t i = 0; i < std::min(count, last.size()); ++i)
    if (!walk.pass(last[(count - 1 - i) % last.size()])) break;
  return walk.client();
}

}  // namespace sluice::http
