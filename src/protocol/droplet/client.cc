#include "protocol/droplet/client.h"

#include <openssl/evp.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/bounds.h"
#include "client/looks_like.h"
#include "client/socket.h"
#include "wire/websocket_frames.h"
#include "wire/websocket_handshake.h"

namespace sluice::droplet {
namespace {

using Event = wire::WebsocketEvent;

// What the server's log shows.
constexpr std::string_view id = "sluice ask";
constexpr const char* no_response = "that is not a response of droplet's protocol";

DropletResult failed(std::string error) {
  return {std::nullopt, std::move(error)};
}

std::string random_bytes(size_t count) {
  std::random_device device;
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(device());
  return bytes;
}

std::string masked_frame(uint8_t opcode, std::string_view payload) {
  wire::WebsocketMask mask;
  random_bytes(mask.size()).copy(mask.data(), mask.size());
  base::Buffer out;
  wire::append_masked_websocket_frame(opcode, payload, mask, out);
  return std::string(out.view());
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
    if (!status.starts_with("HTTP/")) return "that is not a server of droplet's protocol";
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
  return "that is not a server of droplet's protocol: its handshake does not answer ours";
}

// Leaves in `in` what came behind the head. "", or what is wrong.
std::string shake_hands(calls::Socket& socket, const std::string& host, std::string& in) {
  base::Buffer request;
  wire::append_websocket_upgrade(host, new_key(), request);
  const std::string_view head = request.view();
  // What our own server would answer.
  const wire::WebsocketHandshake wanted = wire::read_websocket_handshake(head);
  if (!socket.send(head)) return calls::sent_too_late;
  std::string problem;
  size_t end = std::string::npos;
  while (end == std::string::npos) {
    if (in.size() > base::bounds::http_head_bytes_max)
      return "that is not a server of droplet's protocol";
    if (!socket.receive(in, problem))
      return in.starts_with("HTTP/") ? problem : problem + calls::looks_like(in);
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

// The next message; pings are ignored, as the connection ends with it.
DropletResult receive(calls::Socket& socket, std::string& in) {
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

std::string droplet_message(DropletRequest request) {
  request.id = id;
  base::Buffer out;
  append_droplet_request(request, out);
  return std::string(out.view());
}

DropletResult droplet_response(std::string_view message) {
  DropletResponse response;
  if (!read_droplet_response(message, response)) return failed(no_response);
  return {response, ""};
}

DropletClient::DropletClient(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}

DropletResult DropletClient::ask(const DropletRequest& request) const {
  std::string problem, in;
  auto socket = calls::Socket::connect(host_, port_, timeout_, problem);
  if (!socket) return failed(std::move(problem));
  problem = shake_hands(*socket, host_, in);
  if (!problem.empty()) return failed(std::move(problem));
  if (!socket->send(masked_frame(wire::websocket_binary, droplet_message(request))))
    return failed(calls::sent_too_late);
  DropletResult result = receive(*socket, in);
  socket->send(masked_frame(wire::websocket_close, "\x03\xe8"));  // 1000: nothing more to ask
  return result;
}

}  // namespace sluice::droplet
