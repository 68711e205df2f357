// Who the client of a connection is, and what it may do: where the server has users, a client that
// has proved to be one of them; else everybody. Goes by the list of users that is live: who is no
// longer in it has to authenticate again. One for each session, used by its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "access/users.h"

namespace sluice::access {

class Identity {
 public:
  // access: outlives this; null: there are no users. certificate: the name in that of the client,
  // which is who it is as long as it shows no token; empty: it has shown none.
  explicit Identity(const Access* access, std::string certificate = {});

  // Takes the live list if there is another one.
  void refresh();
  // Are there users, so that clients have to authenticate?
  bool is_needed() const { return needed_; }
  // Has it authenticated, or need it not?
  bool is_known() const { return known_; }
  bool may(Right right) const { return rights_.has(right); }
  // Is one of its rights limited to some counters? Then the session has its requests judged by them
  // (request::Requests::guard).
  bool is_limited() const { return limited_ != nullptr; }
  // The user, if one of its rights is limited. Keeps the list it is in.
  const std::shared_ptr<const User>& limited() const { return limited_; }
  const std::string& user() const { return user_; }
  // The same number for all clients that are this user; 0: there are no users, or it is none.
  uint64_t number() const { return number_; }

  // Becomes the user that has the token, by the list that is live now. False: there is none, or it
  // has another name than the given one (Users::find_by); then the client stays who it is.
  bool log_in(std::string_view name, std::string_view token);
  void log_out();
  // For clients that prove who they are with each request: becomes the user of its authorization
  // (read_authorization), or without one that of its certificate. False: there are users, and it
  // is not of one of them; then the client is not known.
  bool authorize(std::string_view field);

 private:
  void take_rights();
  void become(const std::shared_ptr<const Users>& users, const User* user);
  void refuse();

  const Access* const access_;
  std::string certificate_;
  uint64_t version_ = 0;  // of the list that was looked at; 0: none was
  bool needed_ = false, known_ = true;
  bool logged_in_ = false;
  std::string user_{default_user};
  uint64_t number_ = 0;
  Rights rights_ = rights_without_users;
  std::shared_ptr<const User> limited_;  // null: none of its rights is limited
};

}  // namespace sluice::access
