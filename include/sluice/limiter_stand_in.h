/// @file
/// A limiter of the program's own (sluice/limiter.h) that decides for a client (sluice/client.h)
/// while its server is away. C++17; link `sluice-client` and `sluice-limiter`.
///
///     auto local = std::make_shared<sluice::limiter>(std::move(*created));
///     sluice::client_options options;
///     options.stand_in = std::make_shared<sluice::limiter_stand_in>(local);
///
/// - **Shares.** N clients keep a quota of Q where each grants at most Q / N alone: give the
///   limiter's rules such quotas. Limits that come with a request are divided here, by the
///   `clients` of the constructor; of a quota below `clients` nothing is granted.
/// - **What is decided.** A take and a wait, the latter at once: refused with `retry_after`, or
///   granted. A subject with `limits` is counted by its key under them, one with a `type` by its
///   key under the rule of that name, any other one by the rules that its entries meet. Of
///   `several`, each must have `limits` or a `type`.
/// - **Errors.** What cannot be decided keeps the error that the client had, with a text: units
///   below 1, `reset_first`, `several` by entries, an error of the limiter. Where no rule applies
///   it is client_errc::no_rule.
/// - **Threads.** The limiter may be used by any other thread meanwhile. Nothing waits but for
///   locks of the limiter.
#ifndef SLUICE_LIMITER_STAND_IN_H
#define SLUICE_LIMITER_STAND_IN_H

#include <sluice/client.h>
#include <sluice/limiter.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Decides by a limiter where the server does not.
class limiter_stand_in final : public client_stand_in {
 public:
  /// `local` must not be null. `clients`: how many share the limits of requests, 1 or more; 0 is 1.
  explicit limiter_stand_in(std::shared_ptr<limiter> local, std::int64_t clients = 1)
      : local_(std::move(local)), clients_(clients < 1 ? 1 : clients) {}

  /// See the top of this file.
  client_result decide(const client_request& request, client_errc error) override {
    const std::int64_t units = request.n.value_or(1);
    if (request.reset_first) return undecided(error, "a stand-in does not reset");
    if (units < 1) return undecided(error, "a stand-in takes 1 unit or more");
    if (request.several.empty()) return one(request.subject, units, error);
    return request.each ? each(request, units, error) : together(request, units, error);
  }

 private:
  // Of a subject: the handle whose limits hold, none where its entries are matched, or why not.
  struct terms {
    std::optional<handle> by{};
    errc why = errc::ok;
    bool nothing = false;  // its share of the limits is nothing
  };

  terms terms_of(const client_subject& subject) {
    terms its;
    if (!subject.limits.empty()) {
      std::vector<limit_spec> shares;
      for (const client_limit& whole : subject.limits) {
        const std::int64_t quota = whole.quota / clients_, burst = whole.burst / clients_;
        its.nothing |= quota < 1 || (whole.burst > 0 && burst < 1);
        shares.push_back(
            {quota, whole.window, algorithm_of(whole.algorithm), burst, whole.calendar});
      }
      if (!its.nothing) take(its, local_->limits("stand-in", shares));
    } else if (!subject.type.empty()) {
      take(its, local_->find(subject.type));
    }
    return its;
  }

  static void take(terms& its, const result<handle>& found) {
    if (found)
      its.by = *found;
    else
      its.why = found.why().code;
  }

  static algorithm algorithm_of(client_algorithm its) {
    switch (its) {
      case client_algorithm::fixed_window:
        return algorithm::fixed_window;
      case client_algorithm::aligned_window:
        return algorithm::aligned_window;
      case client_algorithm::sliding_window:
        return algorithm::sliding_window;
      case client_algorithm::sliding_log:
        return algorithm::sliding_log;
      case client_algorithm::fixed_bucket:
        return algorithm::fixed_bucket;
      case client_algorithm::concurrency:
        return algorithm::concurrency;
      case client_algorithm::token_bucket:
        break;
    }
    return algorithm::token_bucket;
  }

  client_result one(const client_subject& subject, std::int64_t units, client_errc error) {
    const terms its = terms_of(subject);
    if (its.nothing) return nothing();
    if (its.why != errc::ok) return result_of(failed(its.why), error);
    if (its.by) return result_of(local_->take(*its.by, subject.key, units, local_->now()), error);
    std::vector<entry> entries;
    for (const client_entry& pair : subject.entries) entries.push_back({pair.key, pair.value});
    return result_of(local_->take(view<entry>(entries), units, local_->now()), error);
  }

  client_result together(const client_request& request, std::int64_t units, client_errc error) {
    std::vector<handle> handles;
    std::vector<charge> charges;
    handles.reserve(request.several.size());  // charges point to them
    for (const client_subject& subject : request.several) {
      terms its = terms_of(subject);
      if (its.nothing) return nothing();
      if (its.why != errc::ok) return result_of(failed(its.why), error);
      if (!its.by) return undecided(error, "a stand-in matches no entries of several subjects");
      handles.push_back(std::move(*its.by));
      charges.push_back({&handles.back(), subject.key, units});
    }
    return result_of(local_->take_all(charges, local_->now()), error);
  }

  // Each by itself: allowed if all are.
  client_result each(const client_request& request, std::int64_t units, client_errc error) {
    for (const client_subject& subject : request.several)
      if (subject.limits.empty() && subject.type.empty())
        return undecided(error, "a stand-in matches no entries of several subjects");
    client_result all;
    all.allowed = true;
    for (const client_subject& subject : request.several) {
      const client_result its = one(subject, units, error);
      client_level level;
      level.decided = its.error == client_errc::none;
      level.allowed = its.is_allowed();
      level.limit = its.limit;
      level.remaining = its.remaining;
      level.retry_after = its.retry_after;
      level.reset_after = its.reset_after;
      all.allowed &= level.allowed || its.error == client_errc::no_rule;
      all.levels.push_back(std::move(level));
    }
    return all;
  }

  static decision failed(errc why) {
    decision d;
    d.error = why;
    return d;
  }

  static client_result nothing() {
    client_result none;
    none.limit = none.remaining = 0;
    none.retry_after = client_never;
    return none;
  }

  static client_result undecided(client_errc error, std::string why) {
    client_result none;
    none.error = error;
    none.text = std::move(why);
    return none;
  }

  static client_result result_of(const decision& d, client_errc error) {
    if (d.error == errc::unknown_rule)
      return undecided(client_errc::no_rule, "no rule has that name");
    if (d.error != errc::ok)
      return undecided(error, "the limiter's error " + std::to_string(static_cast<int>(d.error)));
    if (!d.matched) return undecided(client_errc::no_rule, "no rule applies");
    client_result its;
    its.allowed = d.allowed;
    its.limit = d.limit;
    its.remaining = d.remaining;
    its.retry_after = d.retry_after;
    its.reset_after = d.reset_after;
    return its;
  }

  const std::shared_ptr<limiter> local_;
  const std::int64_t clients_;
};

}  // namespace sluice

#endif
