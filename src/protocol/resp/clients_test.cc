#include "protocol/resp/clients.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::resp::clients_test {
namespace {

TEST(Clients, KeepThePlacesOfTheLastScans) {
  Clients clients;
  std::vector<uint64_t> cursors;
  const auto scan = [&] {
    const std::string number = std::to_string(cursors.size());
    cursors.push_back(clients.keep({"from " + number, "after " + number}));
  };
  while (cursors.size() < Clients::scans_max) scan();
  for (size_t i = 0; i < cursors.size(); ++i) {
    EXPECT_NE(cursors[i], 0u) << "it is the end of a scan";
    const auto place = clients.find(cursors[i]);
    ASSERT_TRUE(place) << i;
    EXPECT_EQ(place->from, "from " + std::to_string(i));
    EXPECT_EQ(place->after, "after " + std::to_string(i));
  }
  scan();
  EXPECT_FALSE(clients.find(cursors[0]));
  EXPECT_TRUE(clients.find(cursors[1]));
  EXPECT_TRUE(clients.find(cursors.back()));
  EXPECT_FALSE(clients.find(0));
  EXPECT_FALSE(clients.find(cursors.back() + 1));
}

}  // namespace
}  // namespace sluice::resp::clients_test
