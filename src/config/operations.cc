#include "config/operations.h"

#include <algorithm>

#include "config/candidate.h"
#include "config/read_file.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

constexpr size_t token_bytes_min = 16;

base::Diagnostic place_of(std::string subject) {
  base::Diagnostic place;
  place.subject = std::move(subject);
  return place;
}

bool is_admin(const Setting<Listener>& listener) {
  return listener.value.is_admin();
}

// May a header field contain the token?
bool is_token(std::string_view text) {
  return text.size() >= token_bytes_min &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// Would two listeners with the same port on these hosts have an address in common? Names are
// compared as texts.
bool overlap(const std::string& a, const std::string& b) {
  if (a == b || a == "::" || b == "::") return true;
  const bool has_v6 = a.find(':') != a.npos || b.find(':') != b.npos;
  return !has_v6 && (a == "0.0.0.0" || b == "0.0.0.0");
}

}  // namespace

bool read_admin(const Written& written, Config& config) {
  const std::string& text = written.text;
  std::optional<Address> address;
  if (text != "off" && !text.starts_with('/')) {
    address = address_of(text, admin_port, written.place, written.diagnostics);
    if (!address) return false;
  }
  config.operations.admin_off = text == "off";
  config.operations.admin_socket = {};
  std::erase_if(config.listen, is_admin);
  if (text.starts_with('/')) config.operations.admin_socket = {text, written.origin};
  if (address) config.listen.push_back({{std::nullopt, *address}, written.origin});
  return true;
}

bool AdminToken::read(const Written& written, std::string& to) {
  if (!is_token(written.text))
    return written.wrong("is not a token",
                         "give it " + std::to_string(token_bytes_min) +
                             " or more printable ASCII characters without blanks");
  to = written.text;
  return true;
}

void check_listeners(const Config& config, base::Diagnostics& diagnostics) {
  const auto& all = config.listen;
  for (size_t i = 0; i < all.size(); ++i) {
    const Address& address = all[i].value.address;
    for (size_t j = 0; j < i; ++j) {
      const Address& other = all[j].value.address;
      if (address.port == 0 || address.port != other.port || !overlap(address.host, other.host))
        continue;
      base::Diagnostic place;
      place.subject = "listen";
      complain(place,
               all[i].origin + " has " + std::string(name_of(all[i].value)) + " on " +
                   format_address(address.host, address.port) + ", where " + all[j].origin +
                   " has " + std::string(name_of(all[j].value)) + " already",
               "give one of them another port", diagnostics);
    }
  }
}

std::string open_listeners(const Config& config) {
  std::vector<std::string_view> open;
  for (const auto& [listener, origin] : config.listen) {
    if (!listener.protocol || listener.tls || is_loopback(listener.address.host)) continue;
    const protocol::Description& its = describe(*listener.protocol);
    if (its.authenticates && !config.users.value.empty()) continue;
    if (std::ranges::find(open, its.name) == open.end()) open.push_back(its.name);
  }
  return list_words(open, false);
}

bool set_up_admin(const Config& config, admin::AdminOptions& options, CommandIo& io) {
  base::Diagnostics diagnostics;
  options.token = config.operations.admin_token.value;
  if (const auto& file = config.operations.admin_token_file; !file.value.empty()) {
    if (auto text = read_file(file.value, diagnostics)) {
      while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
      base::Diagnostic place = place_of("admin");
      place.file = file.value;
      options.token.clear();
      AdminToken::read(
          {.key = {}, .text = *text, .origin = {}, .place = place, .diagnostics = diagnostics},
          options.token);
    }
  }
  const auto& users = config.users.value;
  const bool has_admin = std::any_of(users.begin(), users.end(), [](const ConfiguredUser& one) {
    return one.user.rights.has(access::Right::admin);
  });
  for (const auto& listener : config.listen) {
    if (!is_admin(listener) || is_loopback(listener.value.address.host)) continue;
    options.is_reached_by_others = true;
    if (!options.token.empty() || has_admin) continue;
    complain(place_of("admin"),
             listener.origin + " has it listen on " +
                 format_address(listener.value.address.host, listener.value.address.port) +
                 ", where others reach it, and there is no token",
             config.file.empty()
                 ? "set SLUICE_ADMIN_TOKEN_FILE or SLUICE_ADMIN_TOKEN, or listen on 127.0.0.1"
                 : "set admin.token_file or SLUICE_ADMIN_TOKEN, give a user the right `admin`, or "
                   "listen on 127.0.0.1",
             diagnostics);
  }
  tell(diagnostics, io);
  options.settings = print_config(config);
  options.check = [file = config.file](std::string_view kind, const std::string& text) {
    return read_candidate(kind, text, file);
  };
  return !base::has_errors(diagnostics);
}

}  // namespace sluice::config
