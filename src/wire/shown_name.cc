#include "wire/shown_name.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/bounds.h"
#include "base/check.h"
#include "base/units.h"
#include "wire/http_session.h"

namespace sluice::wire {

namespace {

constexpr size_t digest_bytes = 32;

bool is_digest(std::string_view text) {
  return text.size() == 2 * digest_bytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string_view shown_beginning(std::string_view text) {
  if (text.size() <= base::bounds::shown_name_bytes_max) return text;
  size_t end = base::bounds::shown_name_bytes_max;
  // If the bytes are not UTF-8, the text is cut at the bound.
  constexpr size_t behind_first_max = 3;
  for (size_t i = 0; i < behind_first_max && (text[end] & 0xc0) == 0x80; ++i) --end;
  if ((text[end] & 0xc0) == 0x80) end = base::bounds::shown_name_bytes_max;
  return text.substr(0, end);
}

std::string name_digest(std::string_view name) {
  static constexpr char hex[] = "0123456789abcdef";
  std::array<unsigned char, digest_bytes> bytes{};
  unsigned size = 0;
  SLUICE_CHECK(EVP_Digest(name.data(), name.size(), bytes.data(), &size, EVP_sha256(), nullptr) ==
                   1 &&
               size == digest_bytes);
  std::string text;
  for (const unsigned char byte : bytes) {
    text += hex[byte >> 4];
    text += hex[byte & 15];
  }
  return text;
}

std::string path_of_name(std::string_view name) {
  const std::string_view beginning = shown_beginning(name);
  std::string path = percent_encoded(beginning);
  if (beginning.size() == name.size()) return path;
  return path.append("?bytes=")
      .append(std::to_string(name.size()))
      .append("&digest=")
      .append(name_digest(name));
}

std::optional<NameMark> mark_of(std::string_view query, bool& ill_formed) {
  const auto bytes = query_value(query, "bytes"), digest = query_value(query, "digest");
  ill_formed = false;
  if (!bytes && !digest) return std::nullopt;
  const auto count = bytes ? base::parse_count(*bytes) : std::nullopt;
  ill_formed = !count || !digest || !is_digest(*digest);
  if (ill_formed) return std::nullopt;
  return NameMark{*count, *digest};
}

}  // namespace sluice::wire
