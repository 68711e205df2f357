#include "redis/scan.h"

#include <hiredis/hiredis.h>

#include <iterator>
#include <memory>
#include <set>

#include "base/bounds.h"

namespace sluice::redis {

namespace {

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;
using Answer = std::unique_ptr<redisReply, FreeReply>;

Answer ask(redisContext& context, std::initializer_list<std::string_view> words) {
  std::vector<const char*> at;
  std::vector<size_t> sizes;
  for (const std::string_view word : words) {
    at.push_back(word.data());
    sizes.push_back(word.size());
  }
  return Answer(static_cast<redisReply*>(
      redisCommandArgv(&context, static_cast<int>(at.size()), at.data(), sizes.data())));
}

bool is_good(const Answer& answer) {
  return answer && answer->type != REDIS_REPLY_ERROR;
}

Context connect(const Options& options, const Node& node) {
  const timeval patience{1, 0};
  Context context(redisConnectWithTimeout(node.host.c_str(), node.port, patience));
  if (!context || context->err != 0) return nullptr;
  redisSetTimeout(context.get(), patience);
  if (!options.username.empty()) {
    if (!is_good(ask(*context, {"AUTH", options.username, options.password}))) return nullptr;
  } else if (!options.password.empty()) {
    if (!is_good(ask(*context, {"AUTH", options.password}))) return nullptr;
  }
  if (options.database != 0 &&
      !is_good(ask(*context, {"SELECT", std::to_string(options.database)})))
    return nullptr;
  return context;
}

// As a pattern of SCAN that fits it alone.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\' || c == '^') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::vector<std::string> scan(Shared& shared, const limit::Space& space, std::string_view prefix,
                              size_t max) {
  if (max == 0 || shared.options.tls) return {};
  Context context;
  for (const Node& node : shared.options.nodes)
    if ((context = connect(shared.options, node))) break;
  if (!context) return {};
  const std::string head =
      (space.form == limit::Form::own ? shared.options.key_prefix : "") + space.prefix;
  const std::string pattern = escaped(head) + escaped(prefix) + "*" + escaped(space.suffix);
  std::set<std::string, std::less<>> first;
  std::string cursor = "0";
  size_t seen = 0;
  constexpr size_t step = 1000;
  do {
    const Answer answer =
        ask(*context, {"SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(step)});
    if (!is_good(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2 ||
        answer->element[0]->type != REDIS_REPLY_STRING)
      break;
    cursor.assign(answer->element[0]->str, static_cast<size_t>(answer->element[0]->len));
    const redisReply& keys = *answer->element[1];
    for (size_t i = 0; i < keys.elements; ++i) {
      const std::string_view key(keys.element[i]->str, static_cast<size_t>(keys.element[i]->len));
      if (key.size() < head.size() + space.suffix.size()) continue;
      first.emplace(key.substr(head.size(), key.size() - head.size() - space.suffix.size()));
      if (first.size() > max) first.erase(std::prev(first.end()));
    }
    seen += step;
  } while (cursor != "0" && seen < base::bounds::redis_scanned_max);
  return {first.begin(), first.end()};
}

}  // namespace sluice::redis
