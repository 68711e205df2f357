#include "tests/support/limitd_client.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "wire/protobuf.h"

namespace sluice::tests {
namespace {

// The most bytes of a reply: room for a list of 1,000 long keys.
constexpr size_t body_bytes_max = size_t{16} << 20;

// Returns the bytes of the frame, 0 if they are not known yet. Sets `body` if the whole frame has
// arrived. Throws at bytes that are not a frame.
size_t read_frame(std::string_view frame, std::optional<std::string_view>& body) {
  std::string_view found;
  size_t bytes = 0;
  const auto read = limitd::find_limitd_frame(frame, body_bytes_max, found, bytes);
  if (read == limitd::LimitdFrame::bad) throw std::runtime_error("no frame");
  if (read == limitd::LimitdFrame::whole) body = found;
  return bytes;
}

std::string text_of(const limitd::LimitdId& id) {
  if (!id.numeric) return std::string(id.bytes);
  uint64_t number = 0;
  wire::ProtobufReader<uint64_t>(id.bytes).read_number(number);
  return "#" + std::to_string(static_cast<int64_t>(number));
}

}  // namespace

std::string limitd_frame(const LimitdAsked& asked, const std::string& id) {
  base::Buffer out;
  limitd::append_limitd_request({.id = {id},
                                 .type = asked.type,
                                 .key = asked.key,
                                 .method = asked.method,
                                 .count = asked.count.value_or(1),
                                 .has_count = asked.count.has_value(),
                                 .all = asked.all,
                                 .silent = asked.silent},
                                out);
  return std::string(out.view());
}

LimitdReply parse_limitd_reply(const std::string& frame) {
  static const char* const kinds[] = {"error", "take", "put", "status", "pong", "get"};
  std::optional<std::string_view> body;
  if (read_frame(frame, body) != frame.size() || !body)
    throw std::runtime_error("a frame of another length");
  limitd::LimitdReply read;
  if (!limitd::read_limitd_reply(*body, read)) throw std::runtime_error("no reply");
  LimitdReply reply;
  reply.frame = frame;
  reply.id = text_of(read.id);
  reply.kind = kinds[static_cast<size_t>(read.kind)];
  reply.conformant = read.conformant;
  reply.delayed = read.delayed;
  reply.remaining = read.level.remaining;
  reply.reset = static_cast<int64_t>(read.level.reset);
  reply.limit = read.level.limit;
  for (const auto& [key, level] : read.items)
    reply.items.push_back(
        {std::string(key), level.remaining, static_cast<int64_t>(level.reset), level.limit});
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
    // Find the frame's length first, and put its bytes back: so a frame stays whole in tcp_ if its
    // rest does not arrive in time.
    size_t bytes = 0;
    for (size_t front_bytes = 1; bytes == 0; ++front_bytes) {
      const auto front = tcp_.read_bytes(front_bytes, deadline);
      if (!front) return std::nullopt;
      std::optional<std::string_view> body;
      bytes = read_frame(*front, body);
      tcp_.unread(*front);
    }
    const auto whole = tcp_.read_bytes(bytes, deadline);
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
