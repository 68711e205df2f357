#include "redis/scan.h"

#include <hiredis/hiredis.h>

#include <iterator>
#include <memory>
#include <set>

#include "base/bounds.h"
#include "redis/line.h"

namespace sluice::redis {

namespace {

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
  if (max == 0) return {};
  std::unique_ptr<Line> line;
  for (const Address& address : shared.addresses()) {
    line = std::make_unique<Line>();
    if (line->open(shared.options, shared.tls.get(), address)) break;
    line.reset();
  }
  if (!line) return {};
  const std::string head =
      (space.form == limit::Form::own ? shared.options.key_prefix : "") + space.prefix;
  const std::string pattern = escaped(head) + escaped(prefix) + "*" + escaped(space.suffix);
  std::set<std::string, std::less<>> first;
  std::string cursor = "0";
  size_t seen = 0;
  constexpr size_t step = 1000;
  do {
    const Answer answer =
        line->ask({"SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(step)});
    if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2 ||
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
