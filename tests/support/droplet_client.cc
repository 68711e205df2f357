#include "tests/support/droplet_client.h"

#include <gtest/gtest.h>

#include <csignal>
#include <ostream>
#include <stdexcept>

#include "base/buffer.h"
#include "protocol/droplet/message.h"
#include "tests/support/divvy_server.h"
#include "wire/websocket.h"

namespace sluice::tests {
namespace {

constexpr std::string_view switching =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
constexpr wire::WebsocketMask mask = {'\x5a', '\x00', '\xf1', '\x33'};

TcpClient connect(uint16_t port, const std::string& host) {
  auto client = TcpClient::connect(port, host);
  if (!client) throw std::runtime_error("the server refuses a connection over " + host);
  return *std::move(client);
}

}  // namespace

std::string unhex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

std::string to_hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

std::string to_frame(uint8_t opcode, std::string_view payload, FrameShape shape) {
  base::Buffer out;
  if (shape.masked)
    wire::append_masked_websocket_frame(opcode, payload, mask, out);
  else
    wire::append_websocket_frame(opcode, payload, out);
  std::string frame(out.view());
  const uint8_t final_bit = 0x80;
  frame[0] = static_cast<char>((shape.final ? final_bit : 0) | shape.reserved | opcode);
  return frame;
}

Frame close_with(uint16_t code, std::string_view reason) {
  std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 255)};
  return {close_frame, payload.append(reason)};
}

std::string to_message(const DropletTake& take) {
  droplet::DropletRequest request{.bucket = take.bucket,
                                  .id = take.id,
                                  .count = static_cast<int32_t>(take.count.value_or(1)),
                                  .reset = take.reset,
                                  .type = take.query ? droplet::query_type : 0};
  for (size_t i = 0; i < request.limits.size(); ++i) {
    const auto limit = take.limits.find(std::string(droplet::droplet_periods[i]));
    if (limit != take.limits.end()) request.limits[i] = static_cast<uint32_t>(limit->second);
  }
  base::Buffer out;
  droplet::append_droplet_request(request, out);
  return std::string(out.view());
}

DropletLeft read_response(std::string_view message) {
  droplet::DropletResponse response;
  if (!droplet::read_droplet_response(message, response))
    throw std::runtime_error("no response: " + to_hex(message));
  DropletLeft left{.accept = response.accept};
  for (size_t i = 0; i < response.left.size(); ++i)
    if (response.left[i]) left.left[std::string(droplet::droplet_periods[i])] = *response.left[i];
  return left;
}

void PrintTo(const DropletLeft& left, std::ostream* out) {
  *out << (left.accept ? "accept" : "reject");
  for (const auto& [period, n] : left.left) *out << ' ' << period << '=' << n;
}

DropletClient::DropletClient(uint16_t port, const std::string& host)
    : socket_(connect(port, host)) {
  socket_.send(handshake);
  const auto answer = socket_.read_bytes(switching.size());
  if (answer != switching) throw std::runtime_error("no handshake: " + answer.value_or("(end)"));
}

std::optional<Frame> DropletClient::read(Deadline deadline) {
  wire::WebsocketHeader header;
  for (std::string head; !header.read(head);) {
    const auto more = socket_.read_bytes(head.empty() ? 2 : 1, deadline);
    if (!more) return std::nullopt;
    head += *more;
  }
  if (header.reserved != 0 || !header.final || header.masked)
    throw std::runtime_error("no frame of a server, of opcode " + std::to_string(header.opcode));
  auto payload = socket_.read_bytes(static_cast<size_t>(header.payload_bytes), deadline);
  if (!payload) return std::nullopt;
  return Frame{header.opcode, *std::move(payload)};
}

DropletLeft DropletClient::read_left(Deadline deadline) {
  const auto frame = read(deadline);
  if (!frame) throw std::runtime_error("the connection ended in place of a response");
  if (frame->opcode != binary_frame)
    throw std::runtime_error("frame of opcode " + std::to_string(frame->opcode) + ": " +
                             to_hex(frame->payload));
  return read_response(frame->payload);
}

DropletLeft DropletClient::ask(const DropletTake& take) {
  send(take);
  return read_left();
}

std::string DropletClient::read_to_end() {
  const std::string rest = socket_.read_to_end();
  if (!rest.empty()) return to_hex(rest);
  return socket_.was_reset() ? "reset" : "";
}

DropletServer::DropletServer(Process::Options options) {
  options.arguments.insert(options.arguments.begin(), "droplet");
  options.environment.try_emplace("PORT", "0");
  options.environment.try_emplace("SLUICE_LOG_LEVEL", "warn");
  process_ = std::make_unique<Process>(options);
  port_ = await_listening(*process_, "droplet");
}

DropletServer::~DropletServer() {
  if (process_->wait(std::chrono::steady_clock::now())) return;
  process_->signal(SIGTERM);
  EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
}

}  // namespace sluice::tests
