#include "admin/server_info.h"

#include <utility>

#include "protocol/protocol.h"

namespace sluice::admin {
namespace {

double number(uint64_t n) {
  return static_cast<double>(n);
}

double seconds(std::chrono::system_clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

}  // namespace

ServerInfo::ServerInfo(const live::Live& live, const live::ReloadHistory* history,
                       const store::Catalog& store, std::string version)
    : live_(live), history_(history), store_(store), version_(std::move(version)) {}

void ServerInfo::collect(metrics::Page& page) const {
  page.gauge("sluice_build_info", "The build, as labels; always 1.", 1,
             {{"version", version_}, {"compiler", __VERSION__}});

  const store::Stats stats = store_.stats();
  page.gauge("sluice_counters", "Counters that the store holds.", number(stats.counters));
  page.gauge("sluice_store_memory_bytes", "Memory held for counters.", number(stats.memory_bytes));
  if (stats.memory_bytes_max > 0)
    page.gauge("sluice_store_memory_max_bytes", "Bound of the memory held for counters.",
               number(stats.memory_bytes_max));
  page.counter("sluice_counters_swept_total", "Counters dropped because they equalled a fresh one.",
               number(stats.swept));
  page.counter("sluice_counters_purged_total",
               "Full buckets of " + protocol::names_bringing_limits() +
                   " that were forgotten after its cleanup interval.",
               number(stats.purged));
  page.counter("sluice_memory_refusals_total",
               "Groups of charges that failed because the counter memory was full.",
               number(stats.refused));
  page.gauge("sluice_store_loading", "1: not all counters are back from the disk yet.",
             stats.loading ? 1 : 0);
  page.gauge("sluice_store_failing", "1: the disk cannot be written at the moment.",
             stats.failing ? 1 : 0);
  page.counter("sluice_commits_total", "Commits to the disk.", number(stats.commits));
  page.counter("sluice_commit_failures_total", "Commits to the disk that failed.",
               number(stats.commit_failures));
  page.counter("sluice_committed_counters_total", "States of counters that were committed.",
               number(stats.committed_counters));
  page.counter("sluice_committed_bytes_total", "Bytes that were committed.",
               number(stats.committed_bytes));
  page.gauge("sluice_store_unfolded_bytes",
             "Bytes that were committed and are not under the counters' own keys yet.",
             number(stats.unfolded_bytes));
  page.gauge("sluice_waiting_requests", "Requests that wait for units.", number(stats.waiting));

  const auto policy = live_.shown();
  page.gauge("sluice_policy_generation", "Generation of the policy that is live.",
             number(policy->generation));
  page.gauge("sluice_policy_rules", "Rules of the policy that is live.",
             number(policy->rules->written()));
  page.gauge("sluice_policy_info",
             "The policy that is live, by its hash: the same on all servers that read the same "
             "texts; always 1.",
             1, {{"hash", live::hash_text(policy->hash)}});
  page.counter("sluice_regex_given_up_total",
               "Values that regular expressions of the live policy gave up on.",
               number(policy->rules->regexes_given_up()));
  page.counter("sluice_match_given_up_total",
               "Requests that took too many steps to match with the live policy: an error each.",
               number(policy->rules->too_costly()));
  if (history_ == nullptr) return;
  const live::Reading live = history_->last_live(), refused = history_->last_refused();
  page.gauge("sluice_policy_live_timestamp_seconds", "Since when the policy is live.",
             seconds(live.outcome == live::Reading::Outcome::none ? started_ : live.at));
  page.gauge("sluice_policy_refused_timestamp_seconds", "When a policy was last refused; 0: never.",
             refused.outcome == live::Reading::Outcome::none ? 0 : seconds(refused.at));
  page.counter("sluice_policy_refusals_total", "Policies that were refused at a reload.",
               number(history_->refusals()));
  page.gauge("sluice_policy_stale",
             "1: the files hold a policy that was refused, so an older one is live.",
             history_->last().outcome == live::Reading::Outcome::refused ? 1 : 0);
}

}  // namespace sluice::admin
