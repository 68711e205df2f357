// After warming up, limitd's session allocates nothing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/limitd/session.h"
#include "protocol/limitd/session_model.h"
#include "tests/timed/allocations.h"

namespace sluice::tests {
namespace {

using limitd::model::frame;
using limitd::model::number;
using limitd::model::text;
using request::Request;
using request::Requests;
using request::Verdict;

TEST(LimitdAllocation, ServingRequestsAllocatesNothing) {
  std::string in;
  for (uint64_t i = 0; i < 600; ++i)
    in += frame(text(1, "7") + text(2, "ip") + text(3, "k") + number(4, i % 6) + number(5, i % 5)) +
          frame(number(20, i) + text(2, "ip") + text(3, std::string(i, 'k')));
  const limit::Decision decision{true, 1'000, 7, base::seconds(5), {}};
  const std::vector<request::Listed> listed(100, {std::string(300, 'k'), decision});
  const Verdict verdict{.matched = true, .allowed = true, .tightest = &decision, .listed = listed};
  limitd::LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  size_t served = 0;
  const auto serve = [&] {
    for (std::string_view rest = in; !rest.empty();) {
      requests.clear();
      rest.remove_prefix(session.receive(rest, false, requests, out).consumed);
      out.clear();
      for (const Request& r : requests.items()) session.reply(r, verdict, {}, out);
      served += requests.size();
    }
  };
  serve();
  const Allocations allocations;
  serve();
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_EQ(served, 2'400u);
}

}  // namespace
}  // namespace sluice::tests
