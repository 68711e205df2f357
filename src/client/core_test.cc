// The client library's core (client/core.h) with a protocol of its own, without sockets and clocks:
// order, timeouts, lost connections, bounds, and random sequences against a model of the server.
#include "client/core.h"

#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "testing/client_world.h"

namespace sluice::calls {
namespace {

using namespace std::chrono_literals;

// The tests' protocol: requests are `KEY ID` and LF, replies `ID NUMBER` and LF. Replies are
// matched by id or by order.
class LineCodec final : public Codec {
 public:
  explicit LineCodec(bool in_order) : in_order_(in_order) {}
  CodecRead read(std::string_view in, Replies& replies, base::Buffer&) override {
    size_t done = 0;
    for (size_t end = in.find('\n'); end != in.npos; end = in.find('\n', done)) {
      const std::string_view line = in.substr(done, end - done);
      done = end + 1;
      uint64_t id = 0;
      int64_t number = 0;
      const auto rest = std::from_chars(line.data(), line.data() + line.size(), id).ptr;
      const auto last = line.data() + line.size();
      if (rest == last || std::from_chars(rest + 1, last, number).ptr != last)
        return {done, client_errc::bad_reply, "garbage"};
      client_result result;
      result.allowed = true;
      result.remaining = number;
      if (in_order_) {
        if (replies.oldest() == nullptr) return {done, client_errc::bad_reply, "unasked"};
        replies.answer_oldest(std::move(result));
      } else if (replies.find(id) != nullptr) {
        replies.answer(id, std::move(result));
      }
    }
    return {done, client_errc::none, {}};
  }

 private:
  const bool in_order_;
};

base::Done encode_line(const client_request& request, EncodeContext& context, base::Buffer& out) {
  if (request.subject.key.empty()) return base::Problem{"no key"};
  out.append(request.subject.key);
  out.append(" " + std::to_string(context.id) + "\n");
  return {};
}

Dialect line_dialect(bool in_order) {
  Dialect dialect;
  dialect.timeout = base::seconds(1);
  dialect.pending_max = 50;
  dialect.in_order = in_order;
  dialect.has_silent = !in_order;
  dialect.reconnect.first = base::milliseconds(100);
  dialect.away = {.queue_while_waiting = true, .keep_on_failed_attempt = true};
  dialect.make_codec = in_order
      ? [](const Target&) -> std::unique_ptr<Codec> { return std::make_unique<LineCodec>(true); }
  : [](const Target&) -> std::unique_ptr<Codec> { return std::make_unique<LineCodec>(false); };
  dialect.encode = encode_line;
  return dialect;
}

const Dialect ordered = line_dialect(true), by_id = line_dialect(false);

// With a small bound of output, so that requests wait for their socket.
Dialect narrow_dialect(bool in_order) {
  Dialect dialect = line_dialect(in_order);
  dialect.output_bytes_max = 30;
  return dialect;
}

const Dialect narrow_ordered = narrow_dialect(true), narrow_by_id = narrow_dialect(false);

client_request asks(std::string_view key) {
  client_request request;
  request.subject.key = key;
  return request;
}

// The keys and ids of the requests in `text`.
std::vector<std::pair<std::string, uint64_t>> lines_of(std::string_view text) {
  std::vector<std::pair<std::string, uint64_t>> lines;
  while (!text.empty()) {
    const size_t blank = text.find(' '), end = text.find('\n');
    uint64_t id = 0;
    std::from_chars(text.data() + blank + 1, text.data() + end, id);
    lines.emplace_back(text.substr(0, blank), id);
    text.remove_prefix(end + 1);
  }
  return lines;
}

TEST(ClientCore, RequestsThatWaitForTheConnectionAreSentTogether) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a");
  world.submit(asks("b"), "b");
  EXPECT_EQ(world.take_sent(0), "");
  world.accept(0);
  ASSERT_EQ(lines_of(world.take_sent(0)).size(), 2u);
  world.receive(0, "1 7\n1 ");
  EXPECT_EQ(world.results["a"].remaining, 7);
  EXPECT_EQ(world.ended.count("b"), 0u);
  world.receive(0, "8\n");
  EXPECT_EQ(world.results["b"].remaining, 8);
  EXPECT_EQ(world.core.pending(), 0u);
}

TEST(ClientCore, ACallThatTimesOutBeforeTheConnectionIsNotSent) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a", {.timeout = 100ms});
  world.submit(asks("b"), "b");
  world.advance(base::milliseconds(100));
  EXPECT_EQ(world.results["a"].error, client_errc::timeout);
  world.accept(0);
  const auto lines = lines_of(world.take_sent(0));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].first, "b");
  world.receive(0, "1 5\n");
  EXPECT_EQ(world.results["b"].remaining, 5);
}

// More different timeouts than there are queues for them.
TEST(ClientCore, CallsWithManyTimeoutsEachEndOnTime) {
  constexpr int calls = 48, stride = 29;  // no common divisor, so all come in a mixed order
  ClientWorld world(ordered);
  for (int i = 0; i < calls; ++i) {
    const int tenths = 1 + i * stride % calls;
    world.submit(asks("k"), std::to_string(tenths),
                 {.timeout = std::chrono::milliseconds(10 * tenths)});
  }
  for (int step = 1; step <= calls; ++step) {
    world.advance(base::milliseconds(10));
    ASSERT_EQ(world.results.size(), static_cast<size_t>(step));
    EXPECT_EQ(world.results[std::to_string(step)].error, client_errc::timeout);
  }
}

TEST(ClientCore, ATimeoutPastTheEndOfTimeNeverFires) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a", {.timeout = client_never});
  world.submit(asks("b"), "b", {.timeout = client_never - 1us});
  world.advance(base::seconds(1'000'000));
  EXPECT_EQ(world.core.pending(), 2u);
}

TEST(ClientCore, ACallThatHasTimedOutKeepsItsPlaceInOrder) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a", {.timeout = 100ms});
  world.submit(asks("b"), "b");
  world.accept(0);
  world.advance(base::milliseconds(200));
  EXPECT_EQ(world.results["a"].error, client_errc::timeout);
  EXPECT_EQ(world.core.pending(), 2u);
  world.receive(0, "1 1\n");
  EXPECT_EQ(world.ended.count("b"), 0u);
  world.receive(0, "2 2\n");
  EXPECT_EQ(world.results["b"].remaining, 2);
}

TEST(ClientCore, ALostConnectionFailsTheSentCalls) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a");
  world.accept(0);
  world.fail(0, "reset");
  EXPECT_EQ(world.results["a"].error, client_errc::disconnected);
  EXPECT_EQ(world.results["a"].text, "reset");
  world.submit(asks("b"), "b");
  world.advance(base::milliseconds(100));
  world.accept(0);
  world.receive(0, "1 2\n");
  EXPECT_EQ(world.results["b"].remaining, 2);
  EXPECT_EQ(world.ended["a"], 1);
}

TEST(ClientCore, AnUnrequestedReplyEndsTheConnection) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a");
  world.accept(0);
  world.receive(0, "1 1\n1 1\n");
  EXPECT_EQ(world.results["a"].remaining, 1);
  EXPECT_EQ(world.closed[0], 1);
}

TEST(ClientCore, AMalformedReplyFailsTheCallsInFlight) {
  for (const Dialect* dialect : {&ordered, &by_id}) {
    ClientWorld world(*dialect);
    world.submit(asks("a"), "a");
    world.accept(0);
    world.receive(0, "what?\n");
    EXPECT_EQ(world.results["a"].error, client_errc::bad_reply);
    EXPECT_EQ(world.closed[0], 1);
  }
}

TEST(ClientCore, DropsRepeatedRepliesByTheirIds) {
  ClientWorld world(by_id);
  world.submit(asks("a"), "a");
  world.submit(asks("b"), "b");
  world.accept(0);
  const auto lines = lines_of(world.take_sent(0));
  ASSERT_EQ(lines.size(), 2u);
  const std::string second = std::to_string(lines[1].second);
  world.receive(0, second + " 9\n" + second + " 9\n");
  EXPECT_EQ(world.results["b"].remaining, 9);
  EXPECT_EQ(world.closed.count(0), 0u);
  world.submit(asks("c"), "c");
  world.receive(0, second + " 9\n");  // for a call that has ended, whose place another one has now
  EXPECT_EQ(world.ended.count("c"), 0u);
  world.receive(0, std::to_string(lines[0].second) + " 3\n");
  EXPECT_EQ(world.results["a"].remaining, 3);
}

TEST(ClientCore, PastTheBoundACallFailsAtOnce) {
  client_options options;
  options.pending_max = 2;
  ClientWorld world(ordered, 1, options);
  for (const char* name : {"a", "b", "c"}) world.submit(asks(name), name);
  EXPECT_EQ(world.results["c"].error, client_errc::backlog);
  EXPECT_EQ(world.ended.count("a"), 0u);
}

TEST(ClientCore, RejectsARequestThatTheDialectCannotExpress) {
  ClientWorld world(ordered);
  world.submit(asks(""), "a");
  EXPECT_EQ(world.results["a"].error, client_errc::bad_request);
  EXPECT_EQ(world.core.pending(), 0u);
}

TEST(ClientCore, WithoutAServerTheCallersChoiceApplies) {
  for (const client_policy policy : {client_policy::allow, client_policy::deny}) {
    client_options options;
    options.on_unavailable = policy;
    ClientWorld world(ordered, 1, options);
    world.submit(asks("a"), "a");
    client_request peek = asks("b");
    peek.verb = client_verb::peek;
    world.submit(peek, "b");
    world.advance(base::seconds(1));
    EXPECT_EQ(world.results["a"].error, client_errc::none);
    EXPECT_EQ(world.results["a"].origin, client_origin::on_unavailable);
    EXPECT_EQ(world.results["a"].allowed, policy == client_policy::allow);
    EXPECT_EQ(world.results["b"].error, client_errc::timeout);
  }
}

TEST(ClientCore, DisconnectsFromAServerThatStoppedAnswering) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a");
  world.accept(0);
  world.advance(base::milliseconds(9'999));
  EXPECT_EQ(world.closed.count(0), 0u);
  world.advance(base::milliseconds(1));
  EXPECT_EQ(world.closed[0], 1);
  EXPECT_EQ(world.core.pending(), 0u);
}

TEST(ClientCore, AConnectionAttemptFailsAtItsTimeout) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a");
  world.advance(base::seconds(10));
  EXPECT_EQ(world.closed[0], 1);
  world.advance(base::milliseconds(100));
  EXPECT_EQ(world.tries.size(), 2u);
}

TEST(ClientCore, UsesTheFirstConnectedHost) {
  ClientWorld world(ordered, 3);
  world.submit(asks("a"), "a");
  world.fail(0);
  world.accept(1);
  world.accept(2);
  world.submit(asks("b"), "b");
  EXPECT_EQ(lines_of(world.take_sent(1)).size(), 1u);
  world.advance(base::milliseconds(100));
  world.accept(0);
  EXPECT_EQ(lines_of(world.take_sent(0)).size(), 1u);  // `a`, which waited
  world.submit(asks("c"), "c");
  EXPECT_EQ(lines_of(world.take_sent(0)).size(), 1u);
}

TEST(ClientCore, SeveralConnectionsShareTheCalls) {
  client_options options;
  options.connections = 2;
  ClientWorld world(ordered, 1, options);
  world.submit(asks("x"), "x");
  world.accept(0);
  world.accept(1);
  for (const char* name : {"a", "b", "c", "d"}) world.submit(asks(name), name);
  EXPECT_EQ(lines_of(world.take_sent(0)).size() + lines_of(world.take_sent(1)).size(), 5u);
  world.receive(0, "1 1\n2 2\n");
  world.receive(1, "1 1\n2 2\n");
  EXPECT_EQ(world.core.pending(), 1u);
}

TEST(ClientCore, ClosingEndsEveryCallOnce) {
  ClientWorld world(ordered);
  world.submit(asks("a"), "a");
  world.accept(0);
  world.submit(asks("b"), "b");
  world.core.close(world.now);
  world.settle();
  world.submit(asks("c"), "c");
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(world.results[name].error, client_errc::closed);
    EXPECT_EQ(world.ended[name], 1);
  }
}

// ---- A socket that does not take all ----

constexpr size_t mebibyte = 1 << 20;

client_options many_calls(size_t pending_max) {
  client_options options;
  options.pending_max = pending_max;
  return options;
}

TEST(ClientCore, CallsWaitInTheQueueWhileTheSocketIsFull) {
  constexpr int calls = 30'000;
  ClientWorld world(ordered, 1, many_calls(calls));
  const std::string key(100, 'k');
  world.submit(asks("first"), "0", {.timeout = 1h});
  world.accept(0);
  world.socket_room = 0;
  for (int i = 1; i < calls; ++i) world.submit(asks(key), std::to_string(i), {.timeout = 1h});
  EXPECT_EQ(world.core.pending(), size_t{calls});
  EXPECT_LE(world.core.output_bytes(0), mebibyte + 200);
  // The socket takes much, but never everything.
  for (int i = 0; i < 200; ++i) {
    world.drain(0, 10'007);
    ASSERT_LE(world.core.output_bytes(0), 2 * mebibyte + 200);
  }
  world.drain(0, SIZE_MAX);
  const auto lines = lines_of(world.take_sent(0));
  ASSERT_EQ(lines.size(), size_t{calls});
  std::string answers;
  for (int i = 0; i < calls; ++i) answers += "1 " + std::to_string(i) + "\n";
  world.receive(0, answers);
  for (int i = 0; i < calls; ++i) ASSERT_EQ(world.results[std::to_string(i)].remaining, i);
  EXPECT_EQ(world.core.pending(), 0u);
}

// Such a call has no reply to wait for: only the socket can hold it up.
TEST(ClientCore, CallsWithoutAnAnswerWaitForTheSocketAndFailPastTheBound) {
  ClientWorld world(by_id, 1, many_calls(100));
  world.submit(asks("first"), "first");
  world.accept(0);
  world.socket_room = 0;
  const std::string key(10'000, 'k');
  client_request silent = asks(key);
  silent.no_answer = true;
  for (int i = 0; i < 300; ++i) world.submit(silent, "silent");
  EXPECT_EQ(world.core.pending(), 100u);
  EXPECT_LE(world.core.output_bytes(0), mebibyte + 11'000);
  EXPECT_EQ(world.results["silent"].error, client_errc::backlog);
  world.drain(0, SIZE_MAX);
  EXPECT_EQ(world.core.pending(), 1u);
  EXPECT_EQ(world.ended["silent"], 300);
}

TEST(ClientCore, RejectsACallWithoutAnAnswerIfTheProtocolAlwaysAnswers) {
  ClientWorld world(ordered);
  client_request silent = asks("silent");
  silent.no_answer = true;
  world.submit(silent, "silent");
  EXPECT_EQ(world.results["silent"].error, client_errc::bad_request);
  EXPECT_EQ(world.results["silent"].text, "no_answer: the protocol answers every request");
  world.submit(asks("a"), "a");
  world.accept(0);
  EXPECT_EQ(lines_of(world.take_sent(0)).size(), 1u);
  world.receive(0, "1 7\n");
  EXPECT_EQ(world.results["a"].remaining, 7);
}

TEST(ClientCore, ACallThatTimesOutBehindAFullSocketIsNotSentAndTakesNoReply) {
  Dialect narrow = line_dialect(true);
  narrow.output_bytes_max = 10;
  ClientWorld world(narrow);
  world.submit(asks("a"), "a");
  world.accept(0);
  world.socket_room = 0;
  world.submit(asks("longer than the bound"), "sent", {.timeout = 1h});
  world.submit(asks("late"), "late", {.timeout = 100ms});
  world.submit(asks("b"), "b");
  world.advance(base::milliseconds(100));
  EXPECT_EQ(world.results["late"].error, client_errc::timeout);
  world.receive(0, "1 1\n2 2\n");
  EXPECT_EQ(world.results["sent"].remaining, 2);
  world.drain(0, SIZE_MAX);
  const auto lines = lines_of(world.take_sent(0));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2].first, "b");
  world.receive(0, "1 3\n");
  EXPECT_EQ(world.results["b"].remaining, 3);
  world.socket_room = 0;
  world.submit(asks("longer than the bound"), "c");
  world.submit(asks("d"), "d");
  world.receive(0, "1 1\n1 1\n");  // the second one answers no request that was sent
  EXPECT_EQ(world.results["d"].error, client_errc::bad_reply);
  EXPECT_EQ(world.closed[0], 1);
}

TEST(ClientCore, DisconnectsFromAServerThatStoppedReading) {
  ClientWorld world(narrow_by_id);
  world.submit(asks("a"), "a");
  world.accept(0);
  world.socket_room = 0;
  for (int i = 0; i < 20; ++i) world.submit(asks("0123456789"), "stuck");
  world.advance(base::milliseconds(9'000));
  world.drain(0, 5);  // the server still reads a little
  world.advance(base::milliseconds(9'999));
  EXPECT_EQ(world.closed.count(0), 0u);
  world.advance(base::milliseconds(1));
  EXPECT_EQ(world.closed[0], 1);
  EXPECT_EQ(world.core.pending(), 0u);
}

// ---- Random sequences against a model of the server ----

// The requests that a server has received and not answered. It answers with the number that is the
// request's key.
struct Peer {
  std::deque<std::pair<std::string, uint64_t>> requests;
  std::string part;  // the beginning of an incomplete request
};

class RandomRun {
 public:
  RandomRun(const Dialect& dialect, uint32_t seed)
      : dice_(seed), in_order_(dialect.in_order), world_(dialect, 2, options()) {}

  void run() {
    for (int step = 0; step < 400; ++step) {
      act();
      collect();
      ASSERT_LE(world_.core.pending(), 50u);
    }
    // All calls that are left end by their deadlines.
    world_.advance(base::seconds(30));
    for (int i = 0; i < asked_; ++i) {
      const std::string name = std::to_string(i);
      ASSERT_EQ(world_.ended[name], 1) << name;
      const client_result& result = world_.results[name];
      if (result.error == client_errc::none) {
        ASSERT_EQ(result.remaining, i);
        ++answered_;
      }
      ASSERT_EQ(cancelled_.count(name) > 0, result.error == client_errc::cancelled) << name;
    }
    EXPECT_GT(answered_, 0);
  }

 private:
  static client_options options() {
    client_options made;
    made.connections = 2;
    return made;
  }
  uint32_t dice(uint32_t sides) { return static_cast<uint32_t>(dice_() % sides); }

  void collect() {
    for (uint32_t link = 0; link < 4; ++link) {
      if (world_.core.phase(link) != Link::Phase::ready) {
        peers_[link] = {};
        world_.take_sent(link);
        continue;
      }
      std::string& part = peers_[link].part;
      part += world_.take_sent(link);
      const size_t whole = part.rfind('\n') + 1;  // npos + 1 is 0
      for (const auto& line : lines_of(std::string_view(part).substr(0, whole)))
        peers_[link].requests.push_back(line);
      part.erase(0, whole);
    }
  }

  void answer(uint32_t link) {
    Peer& peer = peers_[link];
    if (peer.requests.empty() || world_.core.phase(link) != Link::Phase::ready) return;
    const size_t at = in_order_ ? 0 : dice(static_cast<uint32_t>(peer.requests.size()));
    const auto [key, id] = peer.requests[at];
    peer.requests.erase(peer.requests.begin() + static_cast<ptrdiff_t>(at));
    const std::string line = std::to_string(id) + " " + key + "\n";
    const size_t cut = dice(static_cast<uint32_t>(line.size()));
    if (cut > 0) world_.receive(link, line.substr(0, cut));
    world_.receive(link, line.substr(cut));
    if (!in_order_ && dice(4) == 0) world_.receive(link, line);
  }

  void act() {
    const uint32_t link = dice(4);
    switch (dice(12)) {
      case 0:
      case 1:
      case 2: {
        const std::string name = std::to_string(asked_++);
        const auto timeout = std::chrono::milliseconds(1 + dice(500));
        ids_.push_back(world_.submit(asks(name), name, {.timeout = timeout}));
        break;
      }
      case 3:
        if (!ids_.empty()) cancel(dice(static_cast<uint32_t>(ids_.size())));
        break;
      case 4:
        world_.advance(base::milliseconds(dice(60)));
        break;
      case 5:
        if (dice(3) == 0) world_.fail(link);
        break;
      case 6:
        world_.accept(link);
        break;
      case 7:
        world_.socket_room = dice(3) == 0 ? SIZE_MAX : dice(40);
        break;
      case 8:
        if (world_.core.phase(link) == Link::Phase::ready) world_.drain(link, dice(40));
        break;
      default:
        answer(link);
    }
  }
  void cancel(uint32_t which) {
    const std::string name = std::to_string(which);
    const bool is_under_way = world_.ended.count(name) == 0;
    const bool done = world_.cancel(ids_[which]);
    EXPECT_EQ(done, is_under_way) << name;
    if (done) cancelled_.insert(name);
  }

  std::mt19937 dice_;
  const bool in_order_;
  ClientWorld world_;
  std::map<uint32_t, Peer> peers_;
  std::vector<client_call_id> ids_;
  std::set<std::string> cancelled_;
  int asked_ = 0, answered_ = 0;
};

TEST(ClientCore, EveryCallEndsOnceWithItsOwnReply) {
  for (uint32_t seed = 0; seed < 300; ++seed)
    for (const Dialect* dialect : {&ordered, &by_id, &narrow_ordered, &narrow_by_id}) {
      SCOPED_TRACE(seed);
      RandomRun run(*dialect, seed);
      run.run();
      if (testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace sluice::calls
