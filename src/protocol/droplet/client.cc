#include "protocol/droplet/client.h"

#include <openssl/evp.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/bounds.h"
#include "client/socket.h"
#include "wire/websocket_frames.h"
#include "wire/websocket_handshake.h"

namespace sluice::droplet {
namespace {

using Event = wire::WebsocketEvent;

// What the server's log shows.
constexpr std::string_view id = "sluice ask";
constexpr const char* no_response = "that is no response of droplet's protocol";

enum Field : uint32_t {
  bucket_field = 1,
  id_field,
  count_field,
  reset_field,
  limits_field = 5,
  type_field = 11
};

DropletResult failed(std::string error) {
  return {std::nullopt, std::move(error)};
}

void append_varint(uint64_t value, std::string& out) {
  for (; value > 127; value >>= 7) out += static_cast<char>((value & 127) | 128);
  out += static_cast<char>(value);
}

void append_number(uint32_t field, uint64_t value, std::string& out) {
  append_varint(field << 3, out);
  append_varint(value, out);
}

void append_text(uint32_t field, std::string_view text, std::string& out) {
  append_varint(field << 3 | 2, out);
  append_varint(text.size(), out);
  out += text;
}

bool take_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 70 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (shift < 64) value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return true;
  }
  return false;
}

std::string random_bytes(size_t count) {
  std::random_device device;
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(device());
  return bytes;
}

// One frame of a client: final and masked.
std::string masked_frame(uint8_t opcode, std::string_view payload) {
  const size_t size = payload.size();
  std::string frame(1, static_cast<char>(0x80 | opcode));
  const int bytes = size < 126 ? 0 : size < 65'536 ? 2 : 8;
  frame += static_cast<char>(0x80 | (bytes == 0 ? size : bytes == 2 ? 126 : 127));
  for (int i = bytes - 1; i >= 0; --i) frame += static_cast<char>(size >> (8 * i));
  const std::string mask = random_bytes(4);
  frame += mask;
  for (size_t i = 0; i < size; ++i) frame += static_cast<char>(payload[i] ^ mask[i % 4]);
  return frame;
}

std::string new_key() {
  const std::string bytes = random_bytes(16);
  unsigned char text[25];
  EVP_EncodeBlock(text, reinterpret_cast<const unsigned char*>(bytes.data()), 16);
  return {reinterpret_cast<const char*>(text), 24};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Is it a 101 with this Sec-WebSocket-Accept? "", or what is wrong.
std::string refusal(std::string_view head, std::string_view body, std::string_view accept) {
  const std::string_view status = head.substr(0, head.find('\r'));
  if (!status.starts_with("HTTP/1.1 101")) {
    if (!status.starts_with("HTTP/")) return "that is no server of droplet's protocol";
    return "the server refused: " + std::string(status.substr(std::min<size_t>(9, status.size()))) +
           (body.empty() ? "" : ": " + std::string(body.substr(0, body.find_first_of("\r\n"))));
  }
  for (size_t at = head.find("\r\n"); at < head.size();) {
    const size_t end = std::min(head.find("\r\n", at + 2), head.size());
    const std::string_view line = head.substr(at + 2, end - at - 2);
    const size_t colon = std::min(line.find(':'), line.size());
    at = end;
    if (lower(line.substr(0, colon)) != "sec-websocket-accept") continue;
    std::string_view value = line.substr(std::min(colon + 1, line.size()));
    while (value.starts_with(' ')) value.remove_prefix(1);
    if (value == accept) return "";
  }
  return "that is no server of droplet's protocol: its handshake does not answer ours";
}

// Leaves in `in` what came behind the head. "", or what is wrong.
std::string shake_hands(client::Socket& socket, const std::string& host, std::string& in) {
  const std::string head = "GET / HTTP/1.1\r\nHost: " + host +
                           "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
                           new_key() + "\r\n\r\n";
  // What our own server would answer.
  const wire::WebsocketHandshake wanted = wire::read_websocket_handshake(head);
  if (!socket.send(head)) return client::sent_too_late;
  std::string problem;
  size_t end = std::string::npos;
  while (end == std::string::npos) {
    if (in.size() > base::bounds::http_head_bytes_max)
      return "that is no server of droplet's protocol";
    if (!socket.receive(in, problem)) return problem;
    end = in.find("\r\n\r\n");
  }
  const std::string_view all = in;
  problem = refusal(all.substr(0, end), all.substr(end + 4),
                    {wanted.accept.data(), wanted.accept.size()});
  in.erase(0, end + 4);
  return problem;
}

std::string words_for_close(const Event& event) {
  if (event.kind != Event::Kind::close) return no_response;
  return "the server closed with " + std::to_string(event.code) +
         (event.payload.empty() ? "" : ": " + std::string(event.payload));
}

// The next message; pings are of no account, as the connection ends with it.
DropletResult receive(client::Socket& socket, std::string& in) {
  wire::WebsocketReader reader;
  std::string problem;
  for (;;) {
    reader.renew();
    for (size_t at = 0;;) {
      const Event event = reader.next(std::string_view(in).substr(at));
      at += event.consumed;
      if (event.kind == Event::Kind::incomplete) {
        in.erase(0, at);
        break;
      }
      if (event.kind == Event::Kind::binary) return droplet_response(event.payload);
      if (event.kind != Event::Kind::nothing && event.kind != Event::Kind::ping)
        return failed(words_for_close(event));
    }
    if (!socket.receive(in, problem)) return failed(problem);
  }
}

}  // namespace

std::string droplet_take_message(const DropletTake& take) {
  std::string message;
  append_text(bucket_field, take.bucket, message);
  append_text(id_field, id, message);
  if (take.count != 1)
    append_number(count_field, static_cast<uint64_t>(int64_t{take.count}), message);
  if (take.reset) append_number(reset_field, 1, message);
  for (uint32_t i = 0; i < take.limits.size(); ++i)
    if (take.limits[i] != 0) append_number(limits_field + i, take.limits[i], message);
  return message;
}

std::string droplet_query_message(std::string_view bucket) {
  std::string message;
  append_text(bucket_field, bucket, message);
  append_text(id_field, id, message);
  append_number(type_field, 1, message);
  return message;
}

DropletResult droplet_response(std::string_view message) {
  DropletAnswer answer;
  bool has_accept = false;
  while (!message.empty()) {
    uint64_t tag = 0, value = 0;
    if (!take_varint(message, tag) || (tag & 7) != 0 || !take_varint(message, value))
      return failed(no_response);
    const uint64_t field = tag >> 3;
    if (field == 1) {
      has_accept = true;
      answer.accept = value != 0;
    } else if (field >= 2 && field < 2 + answer.left.size()) {
      answer.left[field - 2] = static_cast<int32_t>(static_cast<uint32_t>(value));
    }
  }
  if (!has_accept) return failed(no_response);
  return {answer, ""};
}

DropletClient::DropletClient(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}

DropletResult DropletClient::take(const DropletTake& take) const {
  return ask(droplet_take_message(take));
}

DropletResult DropletClient::query(std::string_view bucket) const {
  return ask(droplet_query_message(bucket));
}

DropletResult DropletClient::ask(std::string_view message) const {
  std::string problem, in;
  auto socket = client::Socket::connect(host_, port_, timeout_, problem);
  if (!socket) return failed(std::move(problem));
  problem = shake_hands(*socket, host_, in);
  if (!problem.empty()) return failed(std::move(problem));
  if (!socket->send(masked_frame(wire::websocket_binary, message)))
    return failed(client::sent_too_late);
  DropletResult result = receive(*socket, in);
  socket->send(masked_frame(wire::websocket_close, "\x03\xe8"));  // 1000: nothing more to ask
  return result;
}

}  // namespace sluice::droplet
