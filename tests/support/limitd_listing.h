// The server of expect_listed_as_limitd_does, over limitd's protocol. One thread.
#pragma once

#include <string>
#include <utility>

#include "tests/support/limitd_client.h"
#include "tests/support/limitd_listed.h"

namespace sluice::tests {

class LimitdListing {
 public:
  explicit LimitdListing(LimitdClient client) : client_(std::move(client)) {}
  void take(const std::string& type, const std::string& key, int64_t count) {
    client_.take(type, key, count);
  }
  void put(const std::string& type, const std::string& key, int64_t count, bool all) {
    client_.ask({LimitdMethod::put, type, key, count, all});
  }
  LimitdListed::Listed status(const std::string& type) {
    LimitdListed::Listed listed;
    for (const auto& item : client_.ask({LimitdMethod::status, type, ""}).items)
      listed.emplace_back(item.instance, item.remaining);
    return listed;
  }

 private:
  LimitdClient client_;
};

}  // namespace sluice::tests
