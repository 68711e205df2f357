#include "access/identity.h"

#include <memory>
#include <utility>

#include "base/hash.h"

namespace sluice::access {
namespace {

// The token of `Bearer TOKEN` where it stands, as a request of that form allocates nothing. Empty:
// the field has another form.
std::string_view bearer_token(std::string_view field) {
  constexpr std::string_view scheme = "bearer ";
  if (field.size() != scheme.size() + token_characters) return {};
  for (size_t i = 0; i < scheme.size(); ++i)
    if ((field[i] >= 'A' && field[i] <= 'Z' ? field[i] + 32 : field[i]) != scheme[i]) return {};
  return field.substr(scheme.size());
}

}  // namespace

Identity::Identity(const Access* access, std::string certificate)
    : access_(access), certificate_(std::move(certificate)) {
  refresh();
}

void Identity::refresh() {
  if (access_ == nullptr || access_->version() == version_) return;
  version_ = access_->version();
  take_rights();
}

void Identity::become(const std::shared_ptr<const Users>& users, const User* user) {
  number_ = user == nullptr ? 0 : base::digest(user->name) | 1;
  if (user != nullptr && user->is_limited) [[unlikely]]
    limited_ = std::shared_ptr<const User>(users, user);
  else if (limited_ != nullptr) [[unlikely]]
    limited_.reset();
}

void Identity::take_rights() {
  const auto users = access_->users();
  needed_ = !users->empty();
  const User* user = logged_in_ ? users->find(user_) : nullptr;
  logged_in_ = user != nullptr;
  if (user == nullptr && !certificate_.empty()) user = users->find_certificate(certificate_);
  user_ = user != nullptr ? std::string_view(user->name) : default_user;
  known_ = !needed_ || user != nullptr;
  rights_ = !needed_ ? rights_without_users : user != nullptr ? user->rights : Rights();
  become(users, user);
}

bool Identity::log_in(std::string_view name, std::string_view token) {
  if (access_ == nullptr) return false;
  const auto users = access_->users();
  const User* const user = users->find_by(name, token);
  if (user == nullptr) return false;
  logged_in_ = known_ = needed_ = true;
  user_ = user->name;
  rights_ = user->rights;
  become(users, user);
  return true;
}

void Identity::log_out() {
  logged_in_ = false;
  if (access_ != nullptr) take_rights();
}

// A wrong token is no token: the certificate does not stand in for it.
void Identity::refuse() {
  logged_in_ = known_ = false;
  user_ = default_user;
  number_ = 0;
  rights_ = Rights();
  limited_.reset();
  version_ = 0;  // what follows is looked up anew
}

bool Identity::authorize(std::string_view field) {
  refresh();
  if (!needed_) return true;
  if (field.empty() && !certificate_.empty()) {
    if (logged_in_) log_out();
    return known_;
  }
  if (const std::string_view token = bearer_token(field); !token.empty()) {
    if (log_in({}, token)) return true;
    refuse();
    return false;
  }
  const auto proof = read_authorization(field);
  if (proof && log_in(proof->name, proof->token)) return true;
  refuse();
  return false;
}

}  // namespace sluice::access
