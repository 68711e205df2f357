#include "protocol/http/client.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

// The most bytes of NAME:PASSWORD in Base64. Longer ones are treated as wrong.
constexpr size_t credentials_bytes_max = 1024;

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() > credentials_bytes_max * 4 / 3 + 4) return std::nullopt;
  std::string padded(text);
  while (padded.size() % 4 != 0) padded += '=';
  std::string bytes(padded.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(padded.data()),
                                   static_cast<int>(padded.size()));
  if (size < 0) return std::nullopt;
  const auto padding = static_cast<size_t>(std::count(padded.end() - 2, padded.end(), '='));
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

// NAME:PASSWORD from the field Authorization, Basic or Bearer; nothing: it has none.
std::optional<std::string> credentials_of(std::string_view authorization) {
  const size_t blank = std::min(authorization.find(' '), authorization.size());
  const std::string_view scheme = authorization.substr(0, blank);
  std::string_view rest = authorization.substr(blank);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const bool is_bearer = wire::is_http_name(scheme, "bearer");
  if (!is_bearer && !wire::is_http_name(scheme, "basic")) return std::nullopt;
  if (is_bearer && rest.find(':') != rest.npos) return std::string(rest);
  auto decoded = decode_base64(rest);
  if (decoded && decoded->find(':') == std::string::npos) return std::nullopt;
  return decoded;
}

}  // namespace

Client::Client(const request::Peer& peer) : peer_(peer), identity_(peer.access) {}

Client::Known Client::know(std::string_view authorization) {
  identity_.refresh();
  if (!identity_.is_needed()) return Known::yes;
  if (const uint64_t version = peer_.access->version(); version != version_) {
    version_ = version;
    checked_.clear();
  }
  if (authorization.empty()) return Known::no;
  Digest digest;
  unsigned size = 0;
  const int made = EVP_Digest(authorization.data(), authorization.size(), digest.data(), &size,
                              EVP_sha256(), nullptr);
  SLUICE_CHECK(made == 1 && size == digest.size());
  const auto is_same = [&](const Digest& other) {
    return CRYPTO_memcmp(other.data(), digest.data(), digest.size()) == 0;
  };
  if (std::exchange(busy_, false) && is_same(digest_)) return Known::busy;
  const auto found = std::find_if(checked_.begin(), checked_.end(),
                                  [&](const Checked& one) { return is_same(one.digest); });
  if (found != checked_.end()) {
    std::rotate(found, found + 1, checked_.end());
    return take(checked_.back());
  }
  const auto credentials = credentials_of(authorization);
  if (!credentials || credentials->size() > credentials_bytes_max) return Known::no;
  const size_t colon = credentials->find(':');
  digest_ = digest;
  user_ = credentials->substr(0, colon);
  password_ = credentials->substr(colon + 1);
  return Known::unknown;
}

Client::Known Client::take(const Checked& checked) {
  if (!checked.right) return Known::no;
  if (identity_.is_known() && identity_.user() == checked.user) return Known::yes;
  return identity_.log_in(checked.user) ? Known::yes : Known::no;
}

void Client::ask(uint32_t note, request::Requests& requests) {
  SLUICE_CHECK(!asking_);
  const std::string_view address = peer_.address;
  requests.open();
  requests.add(request::Entry{request::user_entry, requests.hold(user_)});
  requests.add(request::Entry{request::password_entry, requests.hold(password_)});
  const std::string_view host = address.substr(0, address.rfind(':'));
  requests.add(request::Entry{request::address_entry, requests.hold(host)});
  requests.commit({.verb = request::Verb::log_in, .note = note, .prefix = {}, .tag = {}});
  asking_ = true;
}

void Client::learn(const request::Verdict& verdict) {
  asking_ = false;
  OPENSSL_cleanse(password_.data(), password_.size());
  password_.clear();
  if (!verdict.error.empty()) {
    busy_ = true;
    return;
  }
  if (checked_.size() == remembered_max) checked_.erase(checked_.begin());
  checked_.push_back({digest_, std::exchange(user_, {}), verdict.allowed});
}

}  // namespace sluice::http
