#include "access/identity.h"

namespace sluice::access {

Identity::Identity(const Access* access) : access_(access) {
  refresh();
}

void Identity::refresh() {
  if (access_ == nullptr || access_->version() == version_) return;
  version_ = access_->version();
  take_rights();
}

void Identity::take_rights() {
  const auto users = access_->users();
  needed_ = !users->empty();
  const User* const user = logged_in_ ? users->find(user_) : nullptr;
  if (user == nullptr) {
    logged_in_ = false;
    user_ = default_user;
  }
  known_ = !needed_ || user != nullptr;
  rights_ = !needed_ ? rights_without_users : user != nullptr ? user->rights : Rights();
}

bool Identity::log_in(std::string_view user) {
  user_ = user;
  logged_in_ = true;
  take_rights();
  return logged_in_;
}

void Identity::log_out() {
  logged_in_ = false;
  if (access_ != nullptr) take_rights();
}

}  // namespace sluice::access
