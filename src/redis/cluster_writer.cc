#include "redis/cluster_writer.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/printable.h"
#include "redis/script_call.h"
#include "redis/slots.h"

namespace sluice::redis {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t written_at_once = 256;
constexpr std::chrono::milliseconds pause{20};

// KEYS: a counter. ARGV: what it must be, with a `=` in front; empty: it must not be there. Then
// what it becomes, and when that ends in ms since 1970, or -1. Reply: 1; or, if it is something
// else, what it is and when that ends.
constexpr std::string_view set_text = R"lua(
local call = redis.call
local v = call('GET', KEYS[1])
if (v and '=' .. v or '') ~= ARGV[1] then
  if not v then return {} end
  local ms, t = call('PTTL', KEYS[1]), call('TIME')
  if ms >= 0 then ms = ms + t[1] * 1000 + math.floor(t[2] / 1000) end
  return {v, string.format('%.0f', ms)}
end
call('SET', KEYS[1], ARGV[2])
if ARGV[3] ~= '-1' then call('PEXPIREAT', KEYS[1], ARGV[3]) end
return 1
)lua";

}  // namespace

struct ClusterWriter::Pending {
  CounterWrite write;
  uint16_t slot;
  std::optional<StoredValue> there = {};  // as it was seen last; nothing: it was not there
  std::optional<Node> asked_on = {};      // the node that a moving slot has it at, once
  bool done = false;
};

ClusterWriter::ClusterWriter(Topology& cluster, bool overwrites, std::chrono::milliseconds patience)
    : cluster_(cluster), overwrites_(overwrites), patience_(patience) {}

BlockingConnection* ClusterWriter::line_to(const Node& node) {
  Line& line = lines_[name_of(node)];
  if (!line) {
    const auto endpoint = cluster_.endpoint(node);
    endpoint->resolver.await(std::chrono::milliseconds(300));
    auto connected = connect_to(*endpoint, cluster_.tls(), nullptr);
    if (connected)
      line = *std::move(connected);
    else
      problem_ = std::move(connected).problem().text;
  }
  return line.get();
}

base::Done ClusterWriter::write(std::vector<CounterWrite> counters, Counts& counts) {
  std::vector<Pending> all;
  all.reserve(counters.size());
  for (CounterWrite& one : counters) {
    const uint16_t slot = slot_of(one.counter.name);
    all.push_back({std::move(one), slot});
  }
  auto due = SteadyClock::now() + patience_;
  for (size_t left = all.size(); left > 0;) {
    const auto map = cluster_.map();
    std::map<std::string, std::pair<Node, std::vector<Pending*>>> by_node;
    for (Pending& one : all) {
      if (one.done) continue;
      const Node* node = one.asked_on ? &*one.asked_on : map->owner_of(one.slot);
      if (node == nullptr) {
        problem_ = "no primary is known that has slot " + std::to_string(one.slot);
        continue;
      }
      auto& [its_node, part] = by_node[name_of(*node)];
      its_node = *node;
      part.push_back(&one);
    }
    bool sound = !by_node.empty();
    for (auto& [name, at] : by_node) sound &= write_to(at.first, at.second, counts);
    if (failed_) return base::Problem{problem_};
    const auto still = static_cast<size_t>(std::ranges::count(all, false, &Pending::done));
    const bool goes_on = still < left;
    if (goes_on) due = SteadyClock::now() + patience_;
    left = still;
    // Where nothing was done, nodes may go on naming each other.
    if (left == 0 || (sound && goes_on)) continue;
    if (SteadyClock::now() >= due) return base::Problem{problem_};
    cluster_.want_look();
    std::this_thread::sleep_for(pause);
  }
  return {};
}

// False: there is trouble that may pass.
bool ClusterWriter::write_to(const Node& node, std::vector<Pending*>& part, Counts& counts) {
  bool sound = true;
  for (size_t at = 0; at < part.size(); at += written_at_once) {
    BlockingConnection* const line = line_to(node);
    if (line == nullptr) return false;
    const std::span some(part.data() + at, std::min(written_at_once, part.size() - at));
    std::vector<std::string> commands;
    for (Pending* one : some) {
      if (one->asked_on) {
        append_array(commands.emplace_back(), 1);
        append_bulk(commands.back(), std::string_view("ASKING"));
      }
      std::string& out = commands.emplace_back();
      append_array(out, 7);
      append_bulk(out, std::string_view("EVAL"));
      append_bulk(out, set_text);
      append_bulk(out, std::string_view("1"));
      append_bulk(out, std::string_view(one->write.counter.name));
      append_bulk(out, one->there ? "=" + one->there->text : std::string());
      append_bulk(out, std::string_view(one->write.value.text));
      append_bulk(out, one->write.value.expires_ms);
    }
    std::vector<Answer> answers;
    const bool all = line->ask_all(commands, answers);
    size_t next = 0;
    for (Pending* one : some) {
      if (std::exchange(one->asked_on, std::nullopt)) ++next;
      if (next >= answers.size() || !answers[next]) break;
      sound &= take_answer(answers[next++], *one, node, counts);
    }
    if (!all) {
      problem_ = line->problem();
      lines_.erase(name_of(node));
      return false;
    }
  }
  return sound;
}

bool ClusterWriter::take_answer(const Answer& answer, Pending& pending, const Node& node,
                                Counts& counts) {
  if (is_error(answer)) return take_error(text_of(*answer), pending, node);
  if (answer->type == REDIS_REPLY_INTEGER) {
    pending.done = true;
    ++(pending.there ? counts.replaced : counts.made);
    return true;
  }
  if (answer->type != REDIS_REPLY_ARRAY || (answer->elements != 0 && answer->elements != 2)) {
    problem_ = name_of(node) + " answers as Redis does not";
    failed_ = true;
    return false;
  }
  if (answer->elements == 0) {
    pending.there.reset();  // it has ended meanwhile
    return true;
  }
  StoredValue there{std::string(text_of(*answer->element[0])), number_of(*answer->element[1])};
  std::optional<StoredValue> next;
  if (overwrites_) {
    if (there.text != pending.write.value.text) next = pending.write.value;
  } else {
    next = more_used(pending.write.counter.form, there, pending.write.value);
  }
  if (!next) {
    pending.done = true;
    ++counts.kept;
    return true;
  }
  pending.write.value = *std::move(next);
  pending.there = std::move(there);
  return true;
}

bool ClusterWriter::take_error(std::string_view text, Pending& pending, const Node& node) {
  if (const auto to = redirect_of(text, node.host)) {
    if (!to->ask) {
      cluster_.follow(*to);
    } else {
      pending.asked_on = to->node;
    }
    problem_ = base::printable(text, 256);
    return true;
  }
  problem_ = name_of(node) + ": " + base::printable(text, 256);
  const auto says = [&](std::string_view word) { return text.starts_with(word); };
  const bool passes = says("TRYAGAIN") || says("CLUSTERDOWN") || says("LOADING") ||
                      says("READONLY") || says("MASTERDOWN") || says("BUSY") || says("NOREPLICAS");
  if (!passes) problem_ += " (key `" + base::printable(pending.write.counter.name, 200) + "`)";
  failed_ = failed_ || !passes;
  return false;
}

base::Result<std::vector<int64_t>> ClusterWriter::clocks() {
  std::vector<int64_t> all;
  const auto map = cluster_.map();
  for (const Node& node : map->primaries) {
    BlockingConnection* const line = line_to(node);
    if (line == nullptr) return base::Problem{problem_};
    auto one = clock_of(*line);
    if (!one) return std::move(one).problem();
    all.push_back(*one);
  }
  return all;
}

base::Result<int64_t> clock_of(BlockingConnection& line) {
  base::Clock clock;
  const int64_t before_us = clock.now().us;
  const Answer answer = line.ask({"TIME"});
  if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2)
    return base::Problem{answer ? "TIME: " + base::printable(text_of(*answer), 256)
                                : line.problem()};
  const int64_t its_us =
      number_of(*answer->element[0]) * 1'000'000 + number_of(*answer->element[1]);
  return (its_us - before_us / 2 - clock.now().us / 2) / 1'000;
}

}  // namespace sluice::redis
