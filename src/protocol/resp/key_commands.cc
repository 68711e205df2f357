// DEL, UNLINK, EXISTS, TTL and PTTL. Their keys are those that clients named in throttling commands
// and in commands with inline limits, as far as they have counters.
#include <iterator>
#include <string>

#include "limit/limit.h"
#include "policy/inline_limits.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/session.h"

namespace sluice::resp {
namespace {

using request::Verb;

// Algorithms whose counters are named by the database and the client's key.
constexpr limit::Algorithm keyed[] = {limit::Algorithm::gcra_cell, limit::Algorithm::gcra_crab,
                                      limit::Algorithm::gcra_redis};

// The most keys of one command, so that it occupies a worker for a few milliseconds at most. A key
// takes up to 8 requests: for each algorithm and for inline limits a peek and, for DEL, a put.
constexpr size_t keys_per_command_max = 128;

}  // namespace

void RespSession::look_at_keys(const CommandEntry& entry, Words keys) {
  if (keys.size() > keys_per_command_max)
    return answer_error("ERR a command takes at most " + std::to_string(keys_per_command_max) +
                        " keys");
  const bool deletes = entry.name == "del" || entry.name == "unlink";
  const uint32_t note = entry.name == "ttl" ? ttl : entry.name == "pttl" ? pttl : counters;
  const request::Message* const its = message({.needs_store = true});
  const auto ask_for = [&](std::string_view key, size_t which, Verb verb, bool last) {
    requests_->open();
    // Applies to the counters of the key itself, whatever rules the policy has for such commands.
    request::Request request{
        .verb = verb, .scope = request::RuleScope::dialect, .message = its, .tag = {}};
    if (which < std::size(keyed)) {
      requests_->add(request::Entry{command_entry, command_of(keyed[which])});
      requests_->add(request::Entry{database_entry, database_text(facts_.database)});
    } else {
      requests_->add(request::Entry{command_entry, inline_command});
      request.limits.replaces = true;
    }
    requests_->add(request::Entry{key_entry, key});
    request.note = silent_ ? silent : note | (last ? 0u : gathered);
    requests_->commit(request);
  };
  const size_t count = std::size(keyed) + (options_.inline_limits ? 1 : 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t which = 0; which < count; ++which) {
      const bool last = i + 1 == keys.size() && which + 1 == count;
      ask_for(keys[i], which, Verb::peek, last && !deletes);
      if (deletes) ask_for(keys[i], which, Verb::reset, last);
    }
  }
}

}  // namespace sluice::resp
