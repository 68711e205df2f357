#include "tests/support/droplet_client.h"

#include <gtest/gtest.h>

#include <csignal>
#include <ostream>
#include <stdexcept>

#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

constexpr std::string_view switching =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
constexpr const char* periods[] = {"ls", "lm", "lh", "ld", "lw", "lo"};
constexpr char mask[] = {'\x5a', '\x00', '\xf1', '\x33'};

TcpClient connect(uint16_t port, const std::string& host) {
  auto client = TcpClient::connect(port, host);
  if (!client) throw std::runtime_error("the server refuses a connection over " + host);
  return *std::move(client);
}

uint64_t byte_at(std::string_view bytes, size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

std::string encode_varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += static_cast<char>(value % 128 + 128);
  return out += static_cast<char>(value);
}

void add_number(std::string& message, unsigned field, int64_t value) {
  message += encode_varint(field << 3) + encode_varint(static_cast<uint64_t>(value));
}

void add_text(std::string& message, unsigned field, std::string_view text) {
  message += encode_varint(field << 3 | 2) + encode_varint(text.size());
  message += text;
}

uint64_t decode_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) throw std::runtime_error("a response ends within a number");
    const uint64_t byte = byte_at(bytes, 0);
    bytes.remove_prefix(1);
    value |= (byte & 127) << shift;
    if (byte < 128) return value;
  }
  throw std::runtime_error("a response has a number that does not end");
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
    out += digits[byte_at(bytes, i) >> 4];
    out += digits[byte_at(bytes, i) & 15];
  }
  return out;
}

std::string to_frame(uint8_t opcode, std::string_view payload, FrameShape shape) {
  const uint64_t size = payload.size();
  const unsigned lengths = size < 126 ? 0 : size < 65'536 ? 2 : 8;
  const uint64_t small = lengths == 0 ? size : lengths == 2 ? 126 : 127;
  std::string out(1, static_cast<char>((shape.final ? 0x80 : 0) | shape.reserved | opcode));
  out += static_cast<char>((shape.masked ? 0x80 : 0) | small);
  for (unsigned i = lengths; i > 0; --i) out += static_cast<char>(size >> (8 * (i - 1)) & 255);
  if (!shape.masked) return out += payload;
  out.append(mask, 4);
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(payload[i] ^ mask[i % 4]);
  return out;
}

Frame close_with(uint16_t code, std::string_view reason) {
  std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 255)};
  return {close_frame, payload.append(reason)};
}

std::string to_message(const DropletTake& take) {
  std::string message;
  add_text(message, 1, take.bucket);
  add_text(message, 2, take.id);
  if (take.count) add_number(message, 3, *take.count);
  if (take.reset) add_number(message, 4, 1);
  for (unsigned i = 0; i < 6; ++i) {
    const auto limit = take.limits.find(periods[i]);
    if (limit != take.limits.end()) add_number(message, 5 + i, limit->second);
  }
  if (take.query) add_number(message, 11, 1);
  return message;
}

DropletLeft read_response(std::string_view message) {
  DropletLeft response;
  uint64_t last = 0;
  while (!message.empty()) {
    const uint64_t tag = decode_varint(message);
    const uint64_t field = tag >> 3, value = decode_varint(message);
    if (tag % 8 != 0 || field <= last || field > 7)
      throw std::runtime_error("a response with an odd field " + std::to_string(tag));
    if (field == 1) {
      response.accept = value != 0;
    } else {
      response.left[periods[field - 2]] = static_cast<int32_t>(static_cast<uint32_t>(value));
    }
    if (last == 0 && field != 1) throw std::runtime_error("a response without `accept`");
    last = field;
  }
  if (last == 0) throw std::runtime_error("an empty response");
  return response;
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
  const auto head = socket_.read_bytes(2, deadline);
  if (!head) return std::nullopt;
  uint64_t size = byte_at(*head, 1);
  if ((byte_at(*head, 0) & 0x70) != 0 || (byte_at(*head, 0) & 0x80) == 0 || size > 127)
    throw std::runtime_error("no frame of a server: " + to_hex(*head));
  if (size > 125) {
    const auto length = socket_.read_bytes(size == 126 ? 2 : 8, deadline);
    if (!length) return std::nullopt;
    size = 0;
    for (size_t i = 0; i < length->size(); ++i) size = size << 8 | byte_at(*length, i);
  }
  auto payload = socket_.read_bytes(size, deadline);
  if (!payload) return std::nullopt;
  return Frame{static_cast<uint8_t>(byte_at(*head, 0) & 15), *std::move(payload)};
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
