#include "tests/redis/scripted_cluster.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "redis/cluster_map.h"
#include "redis/scripts.h"

namespace sluice::tests {

namespace {

std::string encoded(const RedisReply& reply) {
  switch (reply.type) {
    case RedisReply::Type::text:
      return "$" + std::to_string(reply.text.size()) + "\r\n" + reply.text + "\r\n";
    case RedisReply::Type::number:
      return ":" + reply.text + "\r\n";
    case RedisReply::Type::error:
      return "-" + reply.text + "\r\n";
    case RedisReply::Type::list: {
      std::string all = "*" + std::to_string(reply.list.size()) + "\r\n";
      for (const RedisReply& one : reply.list) all += encoded(one);
      return all;
    }
    case RedisReply::Type::nil:
      break;
  }
  return "$-1\r\n";
}

RedisReply text_of(const std::string& text) {
  RedisReply reply;
  reply.type = RedisReply::Type::text;
  reply.text = text;
  return reply;
}
RedisReply number_of(size_t number) {
  RedisReply reply = text_of(std::to_string(number));
  reply.type = RedisReply::Type::number;
  return reply;
}
RedisReply list_of(std::vector<RedisReply> list) {
  RedisReply reply;
  reply.type = RedisReply::Type::list;
  reply.list = std::move(list);
  return reply;
}

bool send_text(int socket, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t sent = ::send(socket, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += static_cast<size_t>(sent);
  }
  return true;
}

// The number after the type's letter at `at`, which is moved past the line. Nothing if the line is
// not complete.
std::optional<size_t> number_at(const std::string& bytes, size_t& at) {
  const size_t end = bytes.find("\r\n", at);
  if (end == std::string::npos) return std::nullopt;
  const size_t number = std::stoul(bytes.substr(at + 1, end - at - 1));
  at = end + 2;
  return number;
}

// The words of the first command, which has `size` bytes. Empty if it is not complete.
std::vector<std::string> command_of(const std::string& bytes, size_t& size) {
  size_t at = 0;
  const auto count = number_at(bytes, at);
  std::vector<std::string> words;
  for (size_t i = 0; count && i < *count; ++i) {
    const auto length = number_at(bytes, at);
    if (!length || bytes.size() < at + *length + 2) return {};
    words.push_back(bytes.substr(at, *length));
    at += *length + 2;
  }
  size = at;
  return words;
}

const redis::Script& undo_script() {
  static redis::Scripts scripts;
  return scripts.undo();
}

ScriptedCluster::Call call_of(size_t node, const std::vector<std::string>& words, bool asked,
                              size_t bytes) {
  ScriptedCluster::Call call;
  call.node = node;
  call.slot = redis::slot_of(words.at(3));
  call.undo = words[1] == undo_script().sha || words[1] == undo_script().text;
  call.asked = asked;
  call.by_text = words[0] == "EVAL";
  call.bytes = bytes;
  // The keys are followed by the mode and the first charge's verb and cost
  // (src/redis/lua_settle.cc); of an undo by its kind, name and cost.
  size_t mode = 3 + std::stoul(words[2]);
  const bool takes = words.size() > mode && words[mode].starts_with('0');
  if (takes && words[mode].ends_with('I')) mode += 2;  // two words of the charge's id
  call.takes = !call.undo && words.size() > mode + 1 && takes &&
               std::string_view("tcx").find(words[mode + 1][0]) != std::string_view::npos;
  if ((call.takes || call.undo) && words.size() > mode + 2) {
    const std::string& cost = words[mode + 2];
    std::from_chars(cost.data(), cost.data() + cost.size(), call.cost);
  }
  return call;
}

}  // namespace

ScriptedCluster::ScriptedCluster(size_t nodes)
    : nodes_(nodes), owners_(redis::slot_count), migrates_to_(redis::slot_count, nodes) {
  for (size_t slot = 0; slot < redis::slot_count; ++slot)
    owners_[slot] = slot * nodes / redis::slot_count;
  for (size_t i = 0; i < nodes; ++i) {
    Node& node = nodes_[i];
    node.listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const its = reinterpret_cast<sockaddr*>(&address);
    if (node.listener < 0 || ::bind(node.listener, its, size) != 0 ||
        ::listen(node.listener, 64) != 0 || ::getsockname(node.listener, its, &size) != 0)
      throw std::runtime_error("a node of a scripted cluster cannot listen");
    node.port = ntohs(address.sin_port);
    node.acceptor = std::thread([this, i, listener = node.listener] { accept_of(i, listener); });
  }
}

ScriptedCluster::~ScriptedCluster() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    released_.notify_all();
    for (Node& node : nodes_) ::shutdown(node.listener, SHUT_RDWR);
  }
  for (Node& node : nodes_) node.acceptor.join();
  for (Connection& connection : connections_) {
    ::shutdown(connection.socket, SHUT_RDWR);
    connection.thread.join();
    ::close(connection.socket);
  }
  for (Node& node : nodes_) ::close(node.listener);
}

size_t ScriptedCluster::owner_of(uint16_t slot) {
  const std::scoped_lock lock(mutex_);
  return owners_[slot];
}

void ScriptedCluster::move(uint16_t slot, size_t to) {
  const std::scoped_lock lock(mutex_);
  owners_[slot] = to;
  migrates_to_[slot] = nodes_.size();
}

void ScriptedCluster::migrate(uint16_t slot, size_t to) {
  const std::scoped_lock lock(mutex_);
  migrates_to_[slot] = to == owners_[slot] ? nodes_.size() : to;
}

void ScriptedCluster::decide(Decide decide) {
  const std::scoped_lock lock(mutex_);
  decide_ = std::move(decide);
}

void ScriptedCluster::release() {
  const std::scoped_lock lock(mutex_);
  ++releases_;
  released_.notify_all();
}

void ScriptedCluster::set_open(size_t node, bool open) {
  const std::scoped_lock lock(mutex_);
  nodes_[node].open = open;
  for (const Connection& connection : connections_)
    if (!open && connection.node == node) ::shutdown(connection.socket, SHUT_RDWR);
}

std::vector<ScriptedCluster::Call> ScriptedCluster::take_calls() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(calls_, {});
}

std::vector<ScriptedCluster::Executed> ScriptedCluster::take_executed() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(executed_, {});
}

size_t ScriptedCluster::take_unknown_undos() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(unknown_undos_, 0);
}

void ScriptedCluster::lose_unknown_undos() {
  const std::scoped_lock lock(mutex_);
  unknown_are_lost_ = true;
}

size_t ScriptedCluster::held() {
  const std::scoped_lock lock(mutex_);
  return held_;
}

void ScriptedCluster::accept_of(size_t node, int listener) {
  for (;;) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const std::scoped_lock lock(mutex_);
    if (ends_ || !nodes_[node].open) ::close(socket);
    if (ends_) return;
    if (!nodes_[node].open) continue;
    // An answer must not wait until the client has acknowledged the one before.
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // Removes connections that have ended, because a test may lose many.
    std::erase_if(connections_, [](Connection& connection) {
      if (!connection.ends) return false;
      connection.thread.join();
      ::close(connection.socket);
      return true;
    });
    Connection& added = connections_.emplace_back();
    added.node = node;
    added.socket = socket;
    added.thread = std::thread([this, &added] { serve(added); });
  }
}

void ScriptedCluster::serve(Connection& connection) {
  RedisClient redis = redis_.client();
  std::string bytes;
  bool asking = false, goes_on = true;
  while (goes_on) {
    std::array<char, 16'384> room;
    const ssize_t got = ::recv(connection.socket, room.data(), room.size(), 0);
    if (got <= 0) break;
    bytes.append(room.data(), static_cast<size_t>(got));
    size_t size = 0;
    for (auto words = command_of(bytes, size); goes_on && !words.empty();
         words = command_of(bytes, size)) {
      goes_on = answer(connection, redis, bytes.substr(0, size), words, asking);
      bytes.erase(0, size);
    }
  }
  // The client reads all answers that were sent, and closes. If the socket did not take what the
  // client sends meanwhile, those answers could be lost too.
  ::shutdown(connection.socket, SHUT_WR);
  for (std::array<char, 16'384> room; ::recv(connection.socket, room.data(), room.size(), 0) > 0;) {
  }
  const std::scoped_lock lock(mutex_);
  connection.ends = true;  // the last thing that this thread does
}

// Answers a command. False if the connection must end.
bool ScriptedCluster::answer(Connection& connection, RedisClient& redis, const std::string& bytes,
                             const std::vector<std::string>& words, bool& asking) {
  if (words[0] == "ASKING") {
    asking = true;
    return send_text(connection.socket, "+OK\r\n");
  }
  if (words[0] == "CLUSTER") {
    if (words[1] == "INFO")
      return send_text(connection.socket,
                       encoded(text_of("cluster_state:ok\r\ncluster_current_epoch:1\r\n")));
    return send_text(connection.socket,
                     words[1] == "SLOTS" ? slots() : "-ERR unknown subcommand\r\n");
  }
  if (words[0] != "EVALSHA" && words[0] != "EVAL")
    return send_text(connection.socket, encoded(redis.raw(bytes)));
  const Call call = call_of(connection.node, words, std::exchange(asking, false), bytes.size());
  const std::string redirect = redirect_of(call);
  if (!redirect.empty()) return send_text(connection.socket, redirect);
  // Redis does not execute a script that it does not know, whatever the test decides.
  if (!call.by_text && redis({"SCRIPT", "EXISTS", words[1]}).list.at(0).number == 0)
    return answers_unknown(call) &&
           send_text(connection.socket, "-NOSCRIPT No matching script.\r\n");
  const Act act = act_of(call);
  if (act.fate == Fate::error) return send_text(connection.socket, "-" + act.error + "\r\n");
  if (act.fate == Fate::lost_before) return false;
  const RedisReply reply = redis.raw(bytes);
  const bool lost = act.fate == Fate::lost_after;
  if (!reply.is_error()) note_executed({call, reply.text, lost});
  return !lost && send_text(connection.socket, encoded(reply));
}

ScriptedCluster::Act ScriptedCluster::act_of(const Call& call) {
  std::unique_lock lock(mutex_);
  calls_.push_back(call);
  const Act act = decide_ ? decide_(call) : Act{};
  if (act.fate != Fate::held) return act;
  ++held_;
  const uint64_t before = releases_;
  released_.wait(lock, [&] { return ends_ || releases_ != before; });
  --held_;
  return act;
}

void ScriptedCluster::note_executed(const Executed& executed) {
  const std::scoped_lock lock(mutex_);
  executed_.push_back(executed);
}

// False: the answer is lost.
bool ScriptedCluster::answers_unknown(const Call& call) {
  const std::scoped_lock lock(mutex_);
  unknown_undos_ += call.undo ? 1 : 0;
  return !call.undo || !unknown_are_lost_;
}

std::string ScriptedCluster::redirect_of(const Call& call) {
  const std::scoped_lock lock(mutex_);
  const size_t owner = owners_[call.slot], to = migrates_to_[call.slot];
  const auto text = [&](const char* kind, size_t node) {
    return std::string("-") + kind + " " + std::to_string(call.slot) +
           " 127.0.0.1:" + std::to_string(nodes_[node].port) + "\r\n";
  };
  if (call.node == owner && to < nodes_.size()) return text("ASK", to);
  if (call.node != owner && !(call.asked && call.node == to)) return text("MOVED", owner);
  return "";
}

std::string ScriptedCluster::slots() {
  const std::scoped_lock lock(mutex_);
  std::vector<RedisReply> ranges;
  for (size_t first = 0; first < owners_.size();) {
    size_t end = first;
    while (end < owners_.size() && owners_[end] == owners_[first]) ++end;
    const RedisReply node = list_of({text_of("127.0.0.1"), number_of(nodes_[owners_[first]].port)});
    ranges.push_back(list_of({number_of(first), number_of(end - 1), node}));
    first = end;
  }
  return encoded(list_of(std::move(ranges)));
}

}  // namespace sluice::tests
