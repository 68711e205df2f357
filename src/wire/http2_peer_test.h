// For tests: a client of HTTP/2. Functions write frames; a Peer encodes header blocks with
// nghttp2's HPACK and reads what a server wrote, stream by stream. One Peer per connection; must
// not be moved.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::wire::http2_peer {

using Headers = std::vector<std::pair<std::string, std::string>>;

inline std::string number(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = bytes; i-- > 0;) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}
inline uint32_t read_number(std::string_view text) {
  uint32_t value = 0;
  for (const char c : text) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

inline std::string frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  return number(payload.size(), 3) + number(type, 1) + number(flags, 1) + number(stream, 4) +
         std::string(payload);
}
inline std::string settings(const std::vector<std::pair<uint16_t, uint32_t>>& entries) {
  std::string payload;
  for (const auto& [id, value] : entries) payload += number(id, 2) + number(value, 4);
  return frame(NGHTTP2_SETTINGS, 0, 0, payload);
}
// Joins frames in the order in which they are made. HPACK requires that order for header blocks;
// the operands of `+` may be evaluated in any order.
inline std::string join(std::initializer_list<std::string> frames) {
  std::string all;
  for (const std::string& one : frames) all += one;
  return all;
}
inline std::string settings_ack() {
  return frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "");
}
inline std::string data(uint32_t stream, std::string_view bytes, bool last = true) {
  return frame(NGHTTP2_DATA, last ? NGHTTP2_FLAG_END_STREAM : 0, stream, bytes);
}
inline std::string window_update(uint32_t stream, uint32_t bytes) {
  return frame(NGHTTP2_WINDOW_UPDATE, 0, stream, number(bytes, 4));
}
inline std::string rst_stream(uint32_t stream, uint32_t code = NGHTTP2_CANCEL) {
  return frame(NGHTTP2_RST_STREAM, 0, stream, number(code, 4));
}
inline std::string ping(uint64_t opaque, bool ack = false) {
  return frame(NGHTTP2_PING, ack ? NGHTTP2_FLAG_ACK : 0, 0, number(opaque, 8));
}
inline std::string hello(const std::vector<std::pair<uint16_t, uint32_t>>& entries = {}) {
  return NGHTTP2_CLIENT_MAGIC + settings(entries);
}

struct Answer {
  Headers headers{}, trailers{};
  std::string body{};
  size_t data_frames = 0;
  bool ended = false;
  int64_t reset = -1;  // the code of RST_STREAM; -1: not reset

  std::string header(std::string_view name) const {
    for (const auto& [n, v] : headers)
      if (n == name) return v;
    return {};
  }
  std::string trailer(std::string_view name) const {
    for (const auto& [n, v] : trailers)
      if (n == name) return v;
    return {};
  }
  std::string status() const { return header(":status"); }
};

class Peer {
 public:
  Peer() {
    if (nghttp2_hd_deflate_new(&deflater_, 4096) != 0 || nghttp2_hd_inflate_new(&inflater_) != 0)
      throw std::runtime_error("no memory");
  }
  ~Peer() {
    nghttp2_hd_deflate_del(deflater_);
    nghttp2_hd_inflate_del(inflater_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  std::string block(const Headers& headers) {
    std::vector<nghttp2_nv> entries;
    for (const auto& [name, value] : headers)
      entries.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                         reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                         value.size(), NGHTTP2_NV_FLAG_NONE});
    std::string bytes(nghttp2_hd_deflate_bound(deflater_, entries.data(), entries.size()), '\0');
    const ssize_t size = nghttp2_hd_deflate_hd(deflater_, reinterpret_cast<uint8_t*>(bytes.data()),
                                               bytes.size(), entries.data(), entries.size());
    if (size < 0) throw std::runtime_error("HPACK");
    bytes.resize(static_cast<size_t>(size));
    return bytes;
  }
  std::string headers(uint32_t stream, const Headers& list, bool last = true) {
    return frame(
        NGHTTP2_HEADERS,
        static_cast<uint8_t>(NGHTTP2_FLAG_END_HEADERS | (last ? NGHTTP2_FLAG_END_STREAM : 0)),
        stream, block(list));
  }
  static Headers get(std::string_view path = "/", Headers more = {}) {
    Headers all{{":method", "GET"},
                {":scheme", "http"},
                {":path", std::string(path)},
                {":authority", "test"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Headers post(std::string_view path = "/", Headers more = {}) {
    Headers all = get(path, std::move(more));
    all[0].second = "POST";
    return all;
  }
  static Headers grpc(std::string_view path, Headers more = {}) {
    Headers all = post(path, {{"content-type", "application/grpc"}, {"te", "trailers"}});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // A request whose body is one frame.
  std::string request(uint32_t stream, const Headers& list, std::string_view body) {
    return headers(stream, list, false) + data(stream, body);
  }

  // Reads what the server wrote. The beginning of a frame waits for the next call.
  void read(std::string_view bytes) {
    rest_ += bytes;
    size_t at = 0;
    while (rest_.size() - at >= 9) {
      const size_t size = read_number(std::string_view(rest_).substr(at, 3));
      if (rest_.size() - at < 9 + size) break;
      take(static_cast<uint8_t>(rest_[at + 3]), static_cast<uint8_t>(rest_[at + 4]),
           read_number(std::string_view(rest_).substr(at + 5, 4)), rest_.substr(at + 9, size));
      at += 9 + size;
    }
    rest_.erase(0, at);
  }

  // The value of the next SETTINGS_HEADER_TABLE_SIZE; used from its acknowledgement on.
  std::optional<size_t> next_table_bytes;
  std::map<uint32_t, Answer> answers;
  std::vector<std::pair<uint32_t, uint32_t>> goaways;  // last stream, code
  std::string goaway_text;
  std::map<uint32_t, uint64_t> window_updates;  // the sum for each stream; 0: the connection
  std::vector<uint64_t> pings, acknowledged_pings;
  std::map<uint16_t, uint32_t> server_settings;
  size_t acknowledged_settings = 0, frames = 0;
  uint8_t first_frame = 255;

 private:
  void take(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
    if (frames++ == 0) first_frame = type;
    const std::string_view text = payload;
    Answer& answer = answers[stream];
    switch (type) {
      case NGHTTP2_DATA:
        answer.body += payload;
        ++answer.data_frames;
        break;
      case NGHTTP2_HEADERS:
        inflate(payload, answer.headers.empty() ? answer.headers : answer.trailers);
        break;
      case NGHTTP2_RST_STREAM:
        answer.reset = read_number(text);
        break;
      case NGHTTP2_SETTINGS:
        if ((flags & NGHTTP2_FLAG_ACK) != 0) acknowledge();
        for (size_t i = 0; i < text.size(); i += 6)
          server_settings[static_cast<uint16_t>(read_number(text.substr(i, 2)))] =
              read_number(text.substr(i + 2, 4));
        break;
      case NGHTTP2_PING:
        ((flags & NGHTTP2_FLAG_ACK) != 0 ? acknowledged_pings : pings)
            .push_back(uint64_t{read_number(text.substr(0, 4))} << 32 |
                       read_number(text.substr(4, 4)));
        break;
      case NGHTTP2_GOAWAY:
        goaways.emplace_back(read_number(text.substr(0, 4)), read_number(text.substr(4, 4)));
        goaway_text = text.substr(8);
        break;
      case NGHTTP2_WINDOW_UPDATE:
        window_updates[stream] += read_number(text);
        break;
      default:
        break;
    }
    if (type <= NGHTTP2_HEADERS && (flags & NGHTTP2_FLAG_END_STREAM) != 0) answer.ended = true;
    if (stream == 0) answers.erase(0);
  }
  void acknowledge() {
    ++acknowledged_settings;
    if (next_table_bytes && nghttp2_hd_inflate_change_table_size(inflater_, *next_table_bytes) != 0)
      throw std::runtime_error("HPACK");
    next_table_bytes.reset();
  }
  void inflate(const std::string& payload, Headers& to) {
    auto* at = reinterpret_cast<const uint8_t*>(payload.data());
    size_t left = payload.size();
    while (true) {
      nghttp2_nv entry;
      int flags = 0;
      const ssize_t read = nghttp2_hd_inflate_hd2(inflater_, &entry, &flags, at, left, 1);
      if (read < 0) throw std::runtime_error("HPACK");
      at += read;
      left -= static_cast<size_t>(read);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
        to.emplace_back(std::string(reinterpret_cast<const char*>(entry.name), entry.namelen),
                        std::string(reinterpret_cast<const char*>(entry.value), entry.valuelen));
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
  }

  nghttp2_hd_deflater* deflater_ = nullptr;
  nghttp2_hd_inflater* inflater_ = nullptr;
  std::string rest_;
};

}  // namespace sluice::wire::http2_peer
