#include "protocol/http/client_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/decimal.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

constexpr size_t v4_bytes = 4, v6_bytes = 16;
constexpr unsigned mapped_bits = 96;
constexpr unsigned char mapped_front[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_address_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view without_entry_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// A decimal number without leading zeros at `at`, which is moved behind it. More than `most`: none
// is there, or it is larger.
unsigned take_address_number(std::string_view text, size_t& at, unsigned most) {
  const size_t begin = at;
  unsigned value = 0;
  while (at < text.size() && is_address_digit(text[at]) && value <= most)
    value = value * 10 + static_cast<unsigned>(text[at++] - '0');
  const bool is_one = at > begin && (text[begin] != '0' || at == begin + 1);
  return is_one ? value : most + 1;
}

// The address of IPv4 at the front of a text; returns its length, 0: there is none.
size_t take_v4(std::string_view text, IpAddress& to) {
  const char* at = text.data();
  const char* const end = at + text.size();
  // 10 or more: none is there.
  const auto digit = [&] { return at == end ? 10u : static_cast<unsigned>(*at) - '0'; };
  for (size_t i = 0; i < v4_bytes; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return 0;
    unsigned value = digit();
    if (value > 9) return 0;
    ++at;
    for (unsigned next; (next = digit()) <= 9; ++at) {
      if (value == 0) return 0;  // a leading zero, which some take for octal
      value = value * 10 + next;
      if (value > 255) return 0;
    }
    to.bytes[i] = static_cast<unsigned char>(value);
  }
  to.is_v6 = false;
  return static_cast<size_t>(at - text.data());
}

// An address of IPv6 as it stands, IPv4-mapped ones too.
std::optional<IpAddress> parse_v6(std::string_view text) {
  // inet_pton wants a NUL behind it, and would stop at one in it.
  char copy[address_bytes_max + 1];
  if (text.size() > address_bytes_max || text.find('\0') != text.npos) return std::nullopt;
  copy[text.copy(copy, text.size())] = '\0';
  IpAddress address;
  address.is_v6 = true;
  if (::inet_pton(AF_INET6, copy, address.bytes.data()) != 1) return std::nullopt;
  return address;
}

bool is_mapped(const IpAddress& address) {
  return address.is_v6 &&
         std::equal(std::begin(mapped_front), std::end(mapped_front), address.bytes.begin());
}

IpAddress as_v4(const IpAddress& mapped) {
  IpAddress address;
  std::copy_n(mapped.bytes.begin() + sizeof mapped_front, v4_bytes, address.bytes.begin());
  return address;
}

// What stands between brackets, or alone: it may have a zone.
std::optional<IpAddress> parse_v6_with_zone(std::string_view text) {
  const size_t zone = std::min(text.find('%'), text.size());
  if (zone + 1 == text.size()) return std::nullopt;  // it has no name
  auto address = parse_v6(text.substr(0, zone));
  if (address && is_mapped(*address)) return as_v4(*address);
  return address;
}

// What may follow an address: nothing, or a port.
bool is_port_or_end(std::string_view text) {
  if (text.empty()) return true;
  size_t at = 1;
  return text.front() == ':' && take_address_number(text, at, UINT16_MAX) <= UINT16_MAX &&
         at == text.size();
}

void clear_behind(IpAddress& address, unsigned bits) {
  const size_t whole = bits / 8;
  if (whole >= address.bytes.size()) return;
  address.bytes[whole] = static_cast<unsigned char>(address.bytes[whole] & (0xff00u >> bits % 8));
  std::fill(address.bytes.begin() + static_cast<ptrdiff_t>(whole) + 1, address.bytes.end(),
            static_cast<unsigned char>(0));
}

size_t write_v4(const IpAddress& address, char* to) {
  char* at = to;
  for (size_t i = 0; i < v4_bytes; ++i) {
    if (i > 0) *at++ = '.';
    at = base::write_decimal(address.bytes[i], at);
  }
  return static_cast<size_t>(at - to);
}

using AddressGroups = std::array<uint16_t, v6_bytes / 2>;

// The longest run of at least two groups that are 0, of equal ones the first (RFC 5952, 4.2).
struct ZeroRun {
  size_t first = 0, count = 0;
};
ZeroRun longest_zeros(const AddressGroups& groups) {
  ZeroRun best, run;
  for (size_t i = 0; i < groups.size(); ++i) {
    run = groups[i] != 0 ? ZeroRun{i + 1, 0} : ZeroRun{run.first, run.count + 1};
    if (run.count > best.count) best = run;
  }
  return best.count > 1 ? best : ZeroRun{groups.size(), 0};
}

char* write_group(uint16_t group, char* to) {
  static constexpr char hex[] = "0123456789abcdef";
  int shift = 12;
  while (shift > 0 && group >> shift == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) *to++ = hex[(group >> shift) & 15];
  return to;
}

size_t write_v6(const IpAddress& address, char* to) {
  AddressGroups groups;
  for (size_t i = 0; i < groups.size(); ++i)
    groups[i] = static_cast<uint16_t>(address.bytes[2 * i] << 8 | address.bytes[2 * i + 1]);
  const ZeroRun zeros = longest_zeros(groups);
  char* at = to;
  for (size_t i = 0; i < groups.size();) {
    if (i == zeros.first) {
      *at++ = ':';
      *at++ = ':';
      i += zeros.count;
      continue;
    }
    if (i > 0 && i != zeros.first + zeros.count) *at++ = ':';
    at = write_group(groups[i++], at);
  }
  return static_cast<size_t>(at - to);
}

// A walk through entries from the right to the left.
class ForwardedWalk {
 public:
  ForwardedWalk(const TrustedProxies& trusted, unsigned depth) : trusted_(trusted), depth_(depth) {}

  // False: it has ended with that entry.
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

// The elements of a Forwarded from the left to the right.
class ForwardedElements {
 public:
  explicit ForwardedElements(std::string_view text) : text_(text) {}

  // False: there is none any more. The node that `for` names, empty: it names none.
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

 private:
  bool is_at_end() const { return at_ == text_.size(); }

  // Up to a comma or semicolon that is not quoted. False: a quoted text has no end.
  bool skip_to_separator() {
    for (; !is_at_end() && text_[at_] != ',' && text_[at_] != ';'; ++at_)
      if (text_[at_] == '"' && !skip_quoted()) return false;
    return true;
  }
  // From a quote to the one that ends it. False: there is none, and nothing is left.
  bool skip_quoted() {
    for (++at_; !is_at_end() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    return !is_at_end();
  }
  // `name=value`, up to a separator. False: it is none.
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
  // Up to a separator, without the quotes around it. Empty: there is none, or more than one.
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
};

}  // namespace

std::optional<IpAddress> parse_address(std::string_view text) {
  if (IpAddress address; const size_t size = take_v4(text, address)) {
    if (!is_port_or_end(text.substr(size))) return std::nullopt;
    return address;
  }
  if (!text.starts_with('[')) return parse_v6_with_zone(text);
  const size_t end = text.find(']');
  if (end == text.npos || !is_port_or_end(text.substr(end + 1))) return std::nullopt;
  return parse_v6_with_zone(text.substr(1, end - 1));
}

size_t write_address(const IpAddress& address, unsigned ipv6_prefix, char* to) {
  if (!address.is_v6) return write_v4(address, to);
  IpAddress cut = address;
  clear_behind(cut, ipv6_prefix);
  return write_v6(cut, to);
}

TrustedProxies TrustedProxies::loopback() {
  TrustedProxies trusted;
  trusted.add("127.0.0.0/8");
  trusted.add("::1");
  return trusted;
}

bool TrustedProxies::add(std::string_view text) {
  if (text == "unix") return unix_ = true;
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string_view name = text.substr(0, slash);
  IpAddress address;
  if (const size_t size = take_v4(name, address); size == 0 || size < name.size()) {
    const auto v6 = parse_v6(name);
    if (!v6) return false;
    address = *v6;
  }
  const unsigned most = static_cast<unsigned>(address.is_v6 ? v6_bytes : v4_bytes) * 8;
  unsigned bits = most;
  if (slash < text.size()) {
    size_t at = slash + 1;
    bits = take_address_number(text, at, most);
    if (bits > most || at < text.size()) return false;
  }
  if (is_mapped(address)) {
    // A wider range has IPv6 addresses too; written so, only a part of it could be meant.
    if (bits < mapped_bits) return false;
    address = as_v4(address);
    bits -= mapped_bits;
  }
  clear_behind(address, bits);
  ranges_.push_back({address, bits});
  return true;
}

bool TrustedProxies::contains(const IpAddress& address) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    const size_t whole = range.bits / 8;
    if (range.address.is_v6 != address.is_v6 ||
        std::memcmp(range.address.bytes.data(), address.bytes.data(), whole) != 0)
      return false;
    const unsigned rest = range.bits % 8;
    return rest == 0 || (range.address.bytes[whole] ^ address.bytes[whole]) >> (8 - rest) == 0;
  });
}

std::vector<std::string> TrustedProxies::texts() const {
  std::vector<std::string> all;
  for (const Range& range : ranges_) {
    char text[address_bytes_max];
    std::string& to = all.emplace_back(text, write_address(range.address, 128, text));
    if (range.bits < (range.address.is_v6 ? v6_bytes : v4_bytes) * 8)
      to += "/" + std::to_string(range.bits);
  }
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
  // Quoted texts may hold commas, so they are found from the left; the last ones are kept.
  std::array<std::string_view, forwarded_entries_max> last;
  size_t count = 0;
  ForwardedElements elements(forwarded);
  for (std::string_view node; elements.next(node); ++count) last[count % last.size()] = node;
  ForwardedWalk walk(trusted, depth);
  for (size_t i = 0; i < std::min(count, last.size()); ++i)
    if (!walk.pass(last[(count - 1 - i) % last.size()])) break;
  return walk.client();
}

}  // namespace sluice::http
