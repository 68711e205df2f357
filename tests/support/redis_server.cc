#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace sluice::tests {

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool ok = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!ok) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "sluice-redis-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code unused;
  std::filesystem::remove_all(path_, unused);
}

namespace {

RedisReply tree(const redisReply& reply) {
  RedisReply out;
  const auto text = [&] { return std::string(reply.str, static_cast<size_t>(reply.len)); };
  switch (reply.type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      out.type = RedisReply::Type::text;
      out.text = text();
      break;
    case REDIS_REPLY_ERROR:
      out.type = RedisReply::Type::error;
      out.text = text();
      break;
    case REDIS_REPLY_INTEGER:
      out.type = RedisReply::Type::number;
      out.number = reply.integer;
      out.text = std::to_string(reply.integer);
      break;
    case REDIS_REPLY_ARRAY:
      out.type = RedisReply::Type::list;
      for (size_t i = 0; i < reply.elements; ++i) out.list.push_back(tree(*reply.element[i]));
      break;
    default:
      break;
  }
  return out;
}

RedisReply taken(redisContext& context, void* got) {
  if (got == nullptr) throw std::runtime_error(std::string("redis client: ") + context.errstr);
  auto* const reply = static_cast<redisReply*>(got);
  RedisReply out = tree(*reply);
  freeReplyObject(reply);
  return out;
}

}  // namespace

void RedisClient::Free::operator()(redisContext* context) const {
  redisFree(context);
}

RedisClient::RedisClient(uint16_t port)
    : context_(redisConnectWithTimeout("127.0.0.1", port, timeval{5, 0})) {
  if (!context_ || context_->err != 0) throw std::runtime_error("no process listens");
  redisSetTimeout(context_.get(), timeval{20, 0});
}

RedisReply RedisClient::operator()(const std::vector<std::string>& words) {
  std::vector<const char*> at;
  std::vector<size_t> sizes;
  for (const std::string& word : words) {
    at.push_back(word.data());
    sizes.push_back(word.size());
  }
  return taken(*context_, redisCommandArgv(context_.get(), static_cast<int>(words.size()),
                                           at.data(), sizes.data()));
}

RedisReply RedisClient::raw(const std::string& bytes) {
  void* reply = nullptr;
  if (redisAppendFormattedCommand(context_.get(), bytes.data(), bytes.size()) != REDIS_OK ||
      redisGetReply(context_.get(), &reply) != REDIS_OK)
    throw std::runtime_error(std::string("redis client: ") + context_->errstr);
  return taken(*context_, reply);
}

RedisServer::RedisServer(std::vector<std::string> settings) : settings_(std::move(settings)) {
  start();
}

RedisServer::RedisServer(const Sentinel& sentinel) : sentinel_(sentinel.file) {
  start();
}

std::vector<std::string> RedisServer::words() const {
  if (!sentinel_.empty()) return {sentinel_, "--sentinel", "--port", std::to_string(port_)};
  std::vector<std::string> words{
      "--port", std::to_string(port_),  "--bind", "127.0.0.1", "--save", "", "--appendonly",
      "no",     "--rdb-del-sync-files", "yes"};
  words.insert(words.end(), settings_.begin(), settings_.end());
  return words;
}

RedisServer::~RedisServer() {
  if (process_) process_->signal(SIGCONT);
}

void RedisServer::stop() {
  process_->signal(SIGCONT);
  process_.reset();
}

void RedisServer::start() {
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (port_ == 0 || (attempt > 0 && process_ == nullptr)) port_ = free_port();
    Process::Options options;
    options.arguments = words();
    options.folder = folder_.path();
    const char* const other = std::getenv("SLUICE_REDIS_SERVER");
    process_ =
        std::make_unique<Process>(options, other != nullptr ? other : "/usr/bin/redis-server");
    const auto deadline = soon();
    while (std::chrono::steady_clock::now() < deadline) {
      try {
        RedisClient client(port_);
        // Another test's server may have taken this port first.
        const RedisReply info = client({"INFO", "server"});
        if (info.is_error() ||
            info.text.find("process_id:" + std::to_string(process_->pid())) != std::string::npos)
          return;
        break;
      } catch (const std::runtime_error&) {
        if (process_->wait(std::chrono::steady_clock::now())) break;
        std::this_thread::sleep_for(Milliseconds(5));
      }
    }
    process_.reset();
  }
  throw std::runtime_error("redis-server does not start");
}

}  // namespace sluice::tests
