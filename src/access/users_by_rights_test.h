// The users that the tables of rights ask as, one list for the tests of all protocols. Header
// alone; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "access/users.h"

namespace sluice::tests {

inline constexpr access::Rights every_right{access::Right::take, access::Right::put,
                                            access::Right::look, access::Right::admin};

// `more`, and for each right R the users `without-R` and `only-R`. The name of each of these is its
// token.
inline std::shared_ptr<const access::Users> users_by_rights(std::vector<access::User> more) {
  for (size_t i = 0; i < access::right_names.size(); ++i) {
    access::Rights without;
    for (size_t j = 0; j < access::right_names.size(); ++j)
      if (j != i) without.add(static_cast<access::Right>(j));
    const std::string name(access::right_names[i]);
    more.push_back({"without-" + name, without, access::digest_of("without-" + name)});
    more.push_back(
        {"only-" + name, {static_cast<access::Right>(i)}, access::digest_of("only-" + name)});
  }
  return std::make_shared<const access::Users>(std::move(more));
}

}  // namespace sluice::tests
