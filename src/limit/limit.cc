#include "limit/limit.h"

#include "base/check.h"

namespace sluice::limit {

std::string_view name_of(Verb verb) {
  switch (verb) {
    case Verb::none:
      return "none";
    case Verb::take:
      return "take";
    case Verb::wait:
      return "wait";
    case Verb::peek:
      return "peek";
    case Verb::put:
      return "put";
    case Verb::probe:
      return "probe";
    case Verb::list:
      return "list";
  }
  return "";
}

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::unlimited:
      return "unlimited";
    case Algorithm::deny:
      return "deny";
    case Algorithm::fixed_window:
      return "fixed_window";
    case Algorithm::aligned_window:
      return "aligned_window";
    case Algorithm::token_bucket:
      return "token_bucket";
    case Algorithm::sliding_window:
      return "sliding_window";
    case Algorithm::sliding_log:
      return "sliding_log";
    case Algorithm::fixed_bucket:
      return "fixed_bucket";
  }
  SLUICE_CHECK(false);
  return "";
}

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
    case Error::full:
      return "full";
    case Error::read_only:
      return "read_only";
    case Error::refused:
      return "refused";
    case Error::foreign:
      return "foreign";
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

}  // namespace sluice::limit
