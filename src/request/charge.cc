#include "request/charge.h"

namespace sluice::request {

std::string_view name_of(Error error) {
  switch (error) {
    case Error::none:
      return "none";
    case Error::memory:
      return "memory";
    case Error::store:
      return "store";
    case Error::deadline:
      return "deadline";
    case Error::overloaded:
      return "overloaded";
    case Error::no_space:
      return "full";
    case Error::read_only:
      return "read_only";
    case Error::auth_failed:
      return "refused";
    case Error::wrong_type:
      return "foreign";
    case Error::no_number:
      return "no_number";
  }
  return "";
}

std::string_view name_of(OnError on_error) {
  switch (on_error) {
    case OnError::error:
      return "error";
    case OnError::deny:
      return "deny";
    case OnError::local:
      return "local";
    case OnError::allow:
      return "allow";
  }
  return "";
}

}  // namespace sluice::request
