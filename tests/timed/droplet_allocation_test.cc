// What droplet's session allocates: nothing for a request, and little for an idle connection.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "protocol/droplet/session.h"
#include "protocol/droplet/session_model.h"
#include "tests/timed/allocations.h"

namespace sluice::tests {
namespace {

using droplet::model::bytes_field;
using droplet::model::frame;
using droplet::model::number_field;
using request::Request;
using request::Requests;
using request::Verdict;

// Gives bytes to a session and replies to their requests, always with the same verdict.
class Connection {
 public:
  Connection(Requests& requests, base::Buffer& out) : requests_(requests), out_(out) {}

  bool serve(std::string_view bytes) {
    out_.clear();
    while (!bytes.empty()) {
      requests_.clear();
      const size_t consumed = session_.receive(bytes, false, requests_, out_).consumed;
      if (consumed == 0) return false;
      bytes.remove_prefix(consumed);
      for (const Request& request : requests_.items()) session_.reply(request, verdict_, {}, out_);
    }
    return true;
  }

 private:
  droplet::DropletSession session_;
  Requests& requests_;
  base::Buffer& out_;
  limit::Decision slots_[2] = {{true, 9, 5, {}, {}}, {true, 9, -5, {}, {}}};
  const request::Charge bucket_{.key = {}, .keeps_limits = true, .limits = {}, .slot_mask = 0b101};
  Verdict verdict_{.allowed = true, .charges = {&bucket_, 1}, .decisions = slots_, .listed = {}};
};

std::string busy_input() {
  std::string bytes;
  for (uint32_t i = 0; i < 16; ++i) {
    bytes += frame(2, bytes_field(1, "bucket:" + std::to_string(i)) + bytes_field(2, "id") +
                          number_field(5, 10) + number_field(6 + i % 5, 1000) +
                          number_field(11, i % 7 == 6 ? 1 : 0));
    if (i % 5 == 4) bytes += frame(9, "ping") + frame(10, "pong");
  }
  return bytes;
}

TEST(DropletAllocation, ServingRequestsAllocatesNothing) {
  request::Requests requests;
  base::Buffer out;
  Connection connection(requests, out);
  const std::string busy = busy_input(), few = frame(9, "alone");
  ASSERT_TRUE(connection.serve(droplet::model::handshake));
  ASSERT_TRUE(connection.serve(busy));
  Allocations allocations;
  bool ok = true;
  for (int round = 0; round < 1'000; ++round) ok &= connection.serve(busy) && connection.serve(few);
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_TRUE(ok);
  EXPECT_GT(out.size(), 0u);
}

TEST(DropletAllocation, AnIdleConnectionIsSmall) {
  constexpr size_t idle_bytes_max = 8 << 10;
  request::Requests requests;
  base::Buffer out;
  const std::string busy = busy_input();
  {
    Connection warm(requests, out);  // grows the worker's buffers
    ASSERT_TRUE(warm.serve(droplet::model::handshake) && warm.serve(busy));
  }
  Allocations allocations;
  const auto session = std::make_unique<Connection>(requests, out);
  const bool greeted = session->serve(droplet::model::handshake);
  const bool served = session->serve(busy);
  // All that it ever allocated, so at least what it holds now.
  const size_t bytes = allocations.bytes();
  EXPECT_TRUE(greeted && served);
  EXPECT_GE(bytes, 512u);  // the session itself
  EXPECT_LE(bytes, idle_bytes_max);
}

}  // namespace
}  // namespace sluice::tests
