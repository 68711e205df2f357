// Who the client of a connection is, and what it may do: where the server has users, a client with
// authenticated as one of them; else everybody. Goes by the list of users that is live: who is no
// longer in it has to authenticate again. One for each session, used by its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "access/access.h"
#include "access/users.h"

namespace sluice::access {

// Who clients are that name no user.
inline constexpr std::string_view default_user = "default";

class Identity {
 public:
  // Outlives this. Null: there are no users.
  explicit Identity(const Access* access);

  // Takes the live list if there is another one.
  void refresh();
  // Are there users, so that clients have to authenticate?
  bool is_needed() const { return needed_; }
  // Has it authenticated, or need it not?
  bool is_known() const { return known_; }
  bool may(Right right) const { return rights_.has(right); }
  const std::string& user() const { return user_; }

  // Its password was right. False: that user is gone.
  bool log_in(std::string_view user);
  void log_out();

 private:
  void take_rights();

  const Access* const access_;
  uint64_t version_ = 0;  // of the list that was looked at; 0: none was
  bool needed_ = false, known_ = true;
  bool logged_in_ = false;
  std::string user_{default_user};
  Rights rights_ = rights_without_users;
};

}  // namespace sluice::access
