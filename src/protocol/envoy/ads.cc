#include "protocol/envoy/ads.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/utf8.h"
#include "protocol/envoy/metadata_value.h"
#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

using Reader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;
using wire::protobuf_key;

constexpr int groups_max = 100;
constexpr uint64_t invalid_argument = 3;  // google.rpc.Code

enum RequestField : uint32_t {
  request_version = 1,
  request_node = 2,
  request_type = 4,
  request_nonce = 5,
  request_error = 6
};
enum NodeField : uint32_t { node_id = 1, node_metadata = 3 };
enum StatusField : uint32_t { status_code = 1, status_message = 2 };
enum ResponseField : uint32_t { response_version = 1, response_resources = 2, response_nonce = 5 };
enum AnyField : uint32_t { any_type = 1, any_value = 2 };

bool read_text(Reader& reader, std::string& to) {
  std::string_view text;
  if (!reader.read_text(text)) return false;
  to = text;
  return true;
}

bool read_any(std::string_view message, AdsResponse::Resource& to) {
  Reader reader(message);
  for (uint32_t key = 0; !reader.at_end();) {
    if (!reader.read_key(key)) return false;
    const bool read = key == protobuf_key(any_type, wire::bytes)    ? read_text(reader, to.type)
                      : key == protobuf_key(any_value, wire::bytes) ? read_text(reader, to.value)
                                                                    : reader.skip(key, groups_max);
    if (!read) return false;
  }
  return true;
}

// Cuts between characters.
std::string_view cut(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (text[bytes_max] & 0xC0) == 0x80) --bytes_max;
  return text.substr(0, bytes_max);
}

std::string node_of(const std::string& id,
                    const std::vector<std::pair<std::string, std::string>>& metadata) {
  MetadataMap map;
  for (const auto& [key, value] : metadata) {
    const auto at = std::ranges::find(map, key, &MetadataMap::value_type::first);
    if (at == map.end())
      map.emplace_back(key, value);
    else
      at->second = value;
  }
  std::string node;
  wire::append_text(node_id, id, node);
  if (!map.empty()) wire::append_text(node_metadata, struct_of(map), node);
  return node;
}

}  // namespace

std::optional<AdsResponse> read_ads_response(std::string_view message) {
  AdsResponse response;
  Reader reader(message);
  std::vector<uint64_t> digests;
  for (uint32_t key = 0; !reader.at_end();) {
    if (!reader.read_key(key)) return std::nullopt;
    std::string_view any;
    bool read = false;
    switch (key) {
      case protobuf_key(response_version, wire::bytes):
        read = read_text(reader, response.version);
        break;
      case protobuf_key(response_nonce, wire::bytes):
        read = read_text(reader, response.nonce);
        break;
      case protobuf_key(response_resources, wire::bytes):
        read = reader.read_text(any) && read_any(any, response.resources.emplace_back());
        digests.push_back(base::digest(any));
        break;
      default:
        read = reader.skip(key, groups_max);
    }
    if (!read) return std::nullopt;
  }
  if (!base::utf8::is_valid(response.version) || !base::utf8::is_valid(response.nonce))
    return std::nullopt;
  // A control plane may keep its resources in a map, in no order.
  std::sort(digests.begin(), digests.end());
  response.digest = base::digest_of(digests);
  return response;
}

AdsSession::AdsSession(const std::string& node,
                       const std::vector<std::pair<std::string, std::string>>& metadata)
    : node_(node_of(node, metadata)) {}

std::string AdsSession::request(std::string_view version, std::string_view nonce,
                                std::string_view refusal) const {
  std::string to;
  if (!version.empty()) wire::append_text(request_version, version, to);
  wire::append_text(request_node, node_, to);
  wire::append_text(request_type, limits_type, to);
  if (!nonce.empty()) wire::append_text(request_nonce, nonce, to);
  if (refusal.empty()) return to;
  std::string status;
  wire::append_number(status_code, invalid_argument, status);
  wire::append_text(status_message, refusal, status);
  wire::append_text(request_error, status, to);
  return to;
}

std::string AdsSession::open() {
  due_.reset();
  return request({}, {}, {});
}

AdsSession::Outcome AdsSession::receive(std::string_view message, Time now, const Apply& apply,
                                        std::string& answer) {
  answer.clear();
  const auto response = read_ads_response(message);
  if (!response) return Outcome::nonsense;
  due_.reset();  // the server waits for an answer to its last response alone
  const bool is_again = taken_ == response->digest;
  const bool is_refused_again = !is_again && refused_ == response->digest;
  if (!is_again && !is_refused_again) {
    if (const auto refusal = apply(*response)) {
      refused_.reset();
      if (refusal->by_itself) refused_ = response->digest;
      if (tried_ != response->digest) wait_ = std::chrono::milliseconds(0);
      tried_ = response->digest;
      std::string text(base::utf8::sanitized_size(refusal->text), '\0');
      base::utf8::sanitize(refusal->text, text.data());
      refusal_ = cut(text, refusal_bytes_max);
    } else {
      taken_ = response->digest;
      refused_.reset();
      tried_.reset();
      wait_ = std::chrono::milliseconds(0);
      version_ = response->version;
      answer = request(version_, response->nonce, {});
      return Outcome::taken;
    }
  }
  if (is_again) {
    refused_.reset();
    tried_.reset();
    wait_ = std::chrono::milliseconds(0);
    version_ = response->version;
    answer = request(version_, response->nonce, {});
    return Outcome::again;
  }
  const Time due = now + wait_;
  wait_ = std::clamp(2 * wait_, refuse_again_after, refuse_again_after_max);
  withheld_ = request(version_, response->nonce, refusal_);
  if (due > now)
    due_ = due;
  else
    answer = std::exchange(withheld_, {});
  return is_refused_again ? Outcome::refused_again : Outcome::refused;
}

std::string AdsSession::take_due() {
  due_.reset();
  return std::exchange(withheld_, {});
}

base::Duration AdsBackoff::next(double chance) {
  const double grown = static_cast<double>(last_.us) * std::max(settings_.factor, 1.0);
  const base::Duration next{std::llround(std::min(grown, 1e15))};
  last_ = std::min(settings_.longest, std::max(settings_.first, next));
  if (!settings_.jitter) return last_;
  return {std::llround(static_cast<double>(last_.us) * (0.8 + 0.4 * chance))};
}

}  // namespace sluice::envoy
