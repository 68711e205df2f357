// Addresses of names, which a thread looks up (net/resolver.h).
#include "net/resolver.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <condition_variable>
#include <mutex>

#include "tests/support/patience.h"

namespace sluice::net {
namespace {

using namespace std::chrono_literals;

Address address_of(uint16_t port) {
  Address address;
  auto& in = reinterpret_cast<sockaddr_in&>(address.storage);
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  address.size = sizeof in;
  return address;
}

std::string ports_of(const std::vector<Address>& addresses) {
  std::string text;
  for (const Address& address : addresses)
    text += std::to_string(address.node) + ":" +
            std::to_string(ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port)) +
            " ";
  return text;
}

// A lookup that waits until the test releases it.
struct Slow {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int asked = 0;
  void let_go() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

TEST(Resolver, ASilentNameServerDoesNotBlockCallers) {
  const auto slow = std::make_shared<Slow>();
  const auto began = std::chrono::steady_clock::now();
  {
    Resolver resolver({{"somewhere", 1}}, [slow](const HostPort&) {
      std::unique_lock lock(slow->mutex);
      ++slow->asked;
      slow->changed.wait(lock, [&] { return slow->open; });
      return std::vector{address_of(7)};
    });
    resolver.look();
    resolver.await(20ms);
    EXPECT_TRUE(resolver.addresses().empty());
    resolver.look();  // a lookup is still running
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, tests::promised(5s));
  // The thread of the lookup outlives its resolver, without harm.
  slow->let_go();
  Resolver resolver({{"somewhere", 1}}, [](const HostPort&) { return std::vector{address_of(8)}; });
  resolver.look();
  resolver.await(20s);
  EXPECT_EQ(ports_of(resolver.addresses()), "0:8 ");
  const std::lock_guard lock(slow->mutex);
  EXPECT_LE(slow->asked, 1);
}

TEST(Resolver, AFailedLookupKeepsTheLastAddress) {
  int look = 0;
  Resolver resolver(
      {{"a", 1}, {"b", 2}}, [&](const HostPort& node) -> base::Result<std::vector<Address>> {
        if (node.host == "a" && look == 1) return base::Problem{"a: not now"};
        return std::vector{address_of(static_cast<uint16_t>(10 * node.port + look)), address_of(9)};
      });
  resolver.look();
  resolver.await(20s);
  EXPECT_EQ(ports_of(resolver.addresses()), "0:10 0:9 1:20 1:9 ");
  EXPECT_EQ(resolver.take_problem(), "");
  look = 1;
  resolver.look();
  resolver.await(20s);
  EXPECT_EQ(ports_of(resolver.addresses()), "0:10 0:9 1:21 1:9 ");
  EXPECT_EQ(resolver.take_problem(), "a: not now");
  EXPECT_EQ(resolver.take_problem(), "");
  look = 2;
  resolver.look();
  resolver.await(20s);
  EXPECT_EQ(ports_of(resolver.addresses()), "0:12 0:9 1:22 1:9 ");
}

TEST(Resolver, ResolvesNumericAddressesOfBothFamilies) {
  Resolver resolver({{"127.0.0.1", 5}, {"::1", 6}});
  resolver.look();
  resolver.await(20s);
  const auto found = resolver.addresses();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].storage.ss_family, AF_INET);
  EXPECT_EQ(found[1].storage.ss_family, AF_INET6);
  EXPECT_EQ(found[1].node, 1u);
}

// A numeric address is resolved once, not at each look.
TEST(Resolver, ResolvesANumericAddressOnce) {
  int asked = 0;
  Resolver resolver({{"127.0.0.1", 5}}, [&](const HostPort&) {
    ++asked;
    return std::vector{address_of(5)};
  });
  for (int i = 0; i < 3; ++i) {
    resolver.look();
    resolver.await(20s);
  }
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace sluice::net
