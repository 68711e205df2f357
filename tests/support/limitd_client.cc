#include "tests/support/limitd_client.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace sluice::tests {
namespace {

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
std::string number(uint32_t field, uint64_t value) {
  return varint(field * 8) + varint(value);
}
std::string text(uint32_t field, const std::string& value) {
  return varint(field * 8 + 2) + varint(value.size()) + value;
}

uint64_t take_varint(std::string_view& from) {
  uint64_t value = 0;
  for (unsigned i = 0; i < 10 && !from.empty(); ++i) {
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte < 0x80) return value;
  }
  throw std::runtime_error("a varint that does not end");
}

struct Field {
  uint64_t number = 0, value = 0;
  std::string_view bytes;
};

std::vector<Field> fields_of(std::string_view body) {
  std::vector<Field> all;
  while (!body.empty()) {
    const uint64_t key = take_varint(body);
    Field& field = all.emplace_back();
    field.number = key / 8;
    field.value = take_varint(body);
    if (key % 8 == 0) continue;
    if (key % 8 != 2 || field.value > body.size())
      throw std::runtime_error("a reply with a field of an unknown wire type");
    field.bytes = body.substr(0, field.value);
    body.remove_prefix(field.value);
  }
  return all;
}

int64_t to_signed(uint64_t value) {
  return static_cast<int64_t>(value);
}

LimitdReply::Item item_of(std::string_view body) {
  LimitdReply::Item item;
  for (const Field& f : fields_of(body)) {
    if (f.number == 1) item.instance = f.bytes;
    if (f.number == 2) item.remaining = to_signed(f.value);
    if (f.number == 3) item.reset = to_signed(f.value);
    if (f.number == 4) item.limit = to_signed(f.value);
  }
  return item;
}

void read_body(std::string_view body, LimitdReply& reply) {
  const bool take = reply.kind == "take";
  for (const Field& f : fields_of(body)) {
    if (reply.kind == "status") {
      reply.items.push_back(item_of(f.bytes));
    } else if (take && f.number < 3) {
      (f.number == 1 ? reply.conformant : reply.delayed) = f.value != 0;
    } else {
      const uint64_t which = take ? f.number - 2 : f.number;
      (which == 1 ? reply.remaining : which == 2 ? reply.reset : reply.limit) = to_signed(f.value);
    }
  }
}

}  // namespace

std::string limitd_frame(const LimitdAsked& asked, const std::string& id) {
  std::string body = text(1, id) + text(2, asked.type) + text(3, asked.key) +
                     number(4, static_cast<uint64_t>(asked.method));
  if (asked.count) body += number(5, static_cast<uint64_t>(*asked.count));
  if (asked.all) body += number(6, 1);
  if (asked.silent) body += number(7, 1);
  return varint(body.size()) + body;
}

LimitdReply parse_limitd_reply(const std::string& frame) {
  static const char* const kinds[] = {"error", "take", "put", "status", "pong", "get"};
  LimitdReply reply;
  reply.frame = frame;
  std::string_view body = frame;
  if (take_varint(body) != body.size()) throw std::runtime_error("a frame of another length");
  for (const Field& f : fields_of(body)) {
    if (f.number == 1) {
      reply.id = f.bytes;
    } else if (f.number == 20) {
      reply.id = "#" + std::to_string(to_signed(f.value));
    } else if (f.number >= 100 && f.number <= 105) {
      reply.kind = kinds[f.number - 100];
      read_body(f.bytes, reply);
    } else {
      throw std::runtime_error("a reply with the field " + std::to_string(f.number));
    }
  }
  return reply;
}

std::string LimitdClient::send(const LimitdAsked& asked) {
  std::string id = std::to_string(++last_id_);
  tcp_.send(limitd_frame(asked, id));
  return id;
}

std::optional<LimitdReply> LimitdClient::await(const std::string& id, Deadline deadline) {
  while (true) {
    if (const auto kept = kept_.find(id); kept != kept_.end()) {
      LimitdReply reply = std::move(kept->second);
      kept_.erase(kept);
      return reply;
    }
    std::string frame;
    uint64_t size = 0;
    for (unsigned i = 0;; ++i) {
      // Byte by byte, so that what has come of a frame stays where it is if the rest does not.
      auto front = tcp_.read_bytes(i + 1, deadline);
      if (!front) return std::nullopt;
      frame = *front;
      const auto byte = static_cast<uint8_t>(frame.back());
      size |= uint64_t{byte & 0x7Fu} << (7 * i);
      tcp_.unread(frame);
      if (byte < 0x80) break;
    }
    auto whole = tcp_.read_bytes(frame.size() + size, deadline);
    if (!whole) return std::nullopt;
    LimitdReply reply = parse_limitd_reply(*whole);
    kept_.emplace(reply.id, std::move(reply));
  }
}

LimitdReply LimitdClient::ask(const LimitdAsked& asked) {
  auto reply = await(send(asked));
  if (!reply) throw std::runtime_error("no reply, or none in time");
  return *std::move(reply);
}

LimitdServer::LimitdServer(std::string config, Process::Options options,
                           const std::map<std::string, std::string>& more_files) {
  for (const auto& [name, content] : more_files) {
    const auto path = std::filesystem::path(folder_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    folder_.write(name, in_place(content));
  }
  options.arguments.insert(
      options.arguments.begin(),
      {"limitd", "-p", "0", "-c", folder_.write("config.yml", in_place(std::move(config)))});
  options_ = std::move(options);
  start();
}

void LimitdServer::start() {
  process_ = std::make_unique<Process>(options_);
  port_ = await_listening(*process_, "limitd");
}

void LimitdServer::restart() {
  process_->signal(SIGTERM);
  if (process_->wait() != 0) throw std::runtime_error("the server did not end cleanly");
  start();
}

LimitdServer::~LimitdServer() {
  if (process_->wait(std::chrono::steady_clock::now())) return;
  process_->signal(SIGTERM);
  EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
}

std::string LimitdServer::in_place(std::string text) const {
  for (const std::string place : {"@DIR@", "@DB@"})
    for (size_t at = 0; (at = text.find(place, at)) != std::string::npos;)
      text.replace(at, place.size(), folder_.path());
  return text;
}

LimitdClient LimitdServer::client() const {
  auto client = TcpClient::connect(port_);
  if (!client) throw std::runtime_error("the server refuses a connection");
  return LimitdClient(*std::move(client));
}

}  // namespace sluice::tests
