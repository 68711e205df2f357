// DEL, UNLINK, EXISTS, TTL, PTTL, TYPE, SCAN and KEYS. Their keys are those that clients named in
// throttling commands and in commands with inline limits, as far as they have counters.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "policy/inline_limits.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/glob.h"
#include "protocol/resp/session.h"

namespace sluice::resp {
namespace {

using request::Verb;

// Algorithms whose counters are named by the database and the client's key.
constexpr limit::Algorithm keyed[] = {limit::Algorithm::gcra_cell, limit::Algorithm::gcra_crab,
                                      limit::Algorithm::gcra_redis};

// The most keys of one command, so that it occupies a worker for a few milliseconds at most. A key
// takes up to 38 requests: for each algorithm and each list of inline limits a peek and, for DEL, a
// put.
constexpr size_t keys_per_command_max = 128;
static_assert(2 * (std::size(keyed) + base::bounds::inline_lists_max) == 38);

constexpr int64_t scan_count_default = 10, scan_count_max = 1000;
// The most names that KEYS reads. If there are more it is an error.
constexpr int64_t keys_max = 100'000;

// The client's key of a stored counter name; nothing: it belongs to another database. Names of
// inline counters contain no database.
std::optional<std::string> key_of(std::string_view name, std::string_view database) {
  if (name.starts_with(policy::inline_prefix)) {
    name.remove_prefix(policy::inline_prefix.size());
    return std::string(name.substr(0, name.rfind(':')));
  }
  const size_t colon = name.find(':');
  const std::string head = std::string(database) + "|";
  if (colon == name.npos || !name.substr(colon + 1).starts_with(head)) return std::nullopt;
  std::string key;
  const std::string_view text = name.substr(colon + 1 + head.size());
  for (size_t i = 0; i < text.size(); ++i) {  // undoes the escaping of policy/key_text.h
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    key += text[i];
  }
  return key;
}

}  // namespace

void RespSession::look_at_keys(const CommandEntry& entry, Words keys) {
  if (keys.size() > keys_per_command_max)
    return answer_error("ERR a command takes at most " + std::to_string(keys_per_command_max) +
                        " keys");
  const bool deletes = entry.name == "del" || entry.name == "unlink";
  const uint32_t note = entry.name == "ttl"    ? ttl
                        : entry.name == "pttl" ? pttl
                        : entry.name == "type" ? type
                                               : counters;
  std::span<const std::vector<limit::Limit>> lists;
  if (options_.inline_limits && peer_.server != nullptr) lists = peer_.server->inline_lists();
  const auto ask_for = [&](std::string_view key, size_t which, Verb verb, bool last) {
    requests_->open();
    // Applies to the counters of the key itself, whatever rules the policy has for such commands.
    request::Request request{.verb = verb,
                             .all = verb == Verb::put,
                             .scope = request::RuleScope::dialect,
                             .needs_store = true,
                             .prefix = {},
                             .tag = {}};
    if (which < std::size(keyed)) {
      requests_->add(request::Entry{command_entry, command_of(keyed[which])});
      requests_->add(request::Entry{database_entry, database_text(facts_.database)});
    } else {
      requests_->add(request::Entry{command_entry, inline_command});
      for (const limit::Limit& limit : lists[which - std::size(keyed)]) requests_->add(limit);
      request.limits_inline = true;
      request.as_written = verb == Verb::peek;
    }
    requests_->add(request::Entry{key_entry, key});
    request.note = silent_ ? silent : note | (last ? 0u : gathered);
    requests_->commit(request);
  };
  const size_t count = std::size(keyed) + lists.size();
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t which = 0; which < count; ++which) {
      const bool last = i + 1 == keys.size() && which + 1 == count;
      ask_for(keys[i], which, Verb::peek, last && !deletes);
      if (deletes) ask_for(keys[i], which, Verb::put, last);
    }
  }
}

void RespSession::scan(Words words) {
  if (executing_) return answer("-ERR SCAN and KEYS are not available between MULTI and EXEC\r\n");
  uint64_t cursor;
  const std::string_view text = words[1];
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), cursor);
  if (problem != std::errc() || end != text.data() + text.size())
    return answer("-ERR invalid cursor\r\n");
  auto its = std::make_unique<Scan>();
  its->pattern = "*";
  int64_t count = scan_count_default;
  for (size_t i = 2; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return answer("-ERR syntax error\r\n");
    if (is_word(words[i], "MATCH")) {
      its->pattern = words[i + 1];
    } else if (is_word(words[i], "COUNT")) {
      if (!wire::read_resp_number(words[i + 1], count))
        return answer("-ERR value is not an integer or out of range\r\n");
      if (count < 1) return answer("-ERR syntax error\r\n");
    } else if (is_word(words[i], "TYPE")) {
      its->fits_type = is_word(words[i + 1], "STRING");
    } else {
      return answer("-ERR syntax error\r\n");
    }
  }
  const auto place = cursor == 0 ? Clients::Place() : clients_.find(cursor);
  if (!place) return answer("-ERR invalid cursor, begin again at 0\r\n");
  scan_ = std::move(its);
  commit_scan(*place, scanned, std::min(count, scan_count_max));
}

void RespSession::list_keys(std::string_view pattern) {
  if (executing_) return answer("-ERR SCAN and KEYS are not available between MULTI and EXEC\r\n");
  scan_ = std::make_unique<Scan>();
  scan_->pattern = pattern;
  commit_scan({}, all_keys, keys_max);
}

void RespSession::commit_scan(const Clients::Place& place, uint32_t note, int64_t names) {
  scan_->silent = silent_;
  requests_->open();
  requests_->commit({.verb = request::Verb::scan,
                     .note = note,
                     .cost = names,
                     .prefix = requests_->hold(place.from),
                     .tag = requests_->hold(place.after)});
}

void RespSession::reply_scan(const request::Request& request, const request::Verdict& verdict,
                             wire::RespWriter& out) {
  const std::unique_ptr<Scan> scan = std::move(scan_);
  if (scan->silent) return;
  if (!verdict.error.empty()) return out.error(error_of(verdict));
  const bool all = request.note == all_keys;
  if (all && !verdict.resume_at.is_end())
    return out.error("ERR there are too many keys for KEYS, use SCAN");
  std::vector<std::string> keys;
  for (const request::Listed& listed : verdict.listed) {
    auto key = key_of(listed.key, database_text(facts_.database));
    if (key && scan->fits_type && fits_glob(*key, scan->pattern)) keys.push_back(*std::move(key));
  }
  // A key may have counters of several commands, so it may be listed more than once.
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  if (!all) {
    out.list(2);
    out.bulk(verdict.resume_at.is_end()
                 ? "0"
                 : std::to_string(clients_.keep({std::string(verdict.resume_at.from),
                                                 std::string(verdict.resume_at.after)})));
  }
  out.list(keys.size());
  for (const std::string& key : keys) out.bulk(key);
}

}  // namespace sluice::resp
