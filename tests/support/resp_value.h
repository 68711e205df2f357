// Replies of the Redis protocol as trees. They are read as RESP2 and RESP3 define them, without the
// program's own code, so that tests can check that code. Throws at bytes that are not a reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::tests {

struct RespValue {
  enum class Type : uint8_t { simple, error, integer, bulk, null, boolean, real, list, map };
  Type type = Type::null;
  std::string text{};             // of simple, error, bulk, real
  int64_t number = 0;             // of integer; boolean: 0 or 1
  std::vector<RespValue> list{};  // of list; of map: keys and values in turn
};
// In one line, much as redis-cli shows it.
std::string to_text(const RespValue& value);
void PrintTo(const RespValue& value, std::ostream* out);

// A command as clients send it.
std::string to_resp(const std::vector<std::string>& words);

// Where the bytes of replies come from.
class RespSource {
 public:
  virtual ~RespSource() = default;
  // The next line without its LF; nothing if the source ended before it.
  virtual std::optional<std::string> line() = 0;
  // The next `count` bytes; nothing if there are fewer.
  virtual std::optional<std::string> bytes(size_t count) = 0;
};
// Nothing: the source ended before a reply. Throws if it ends within one.
std::optional<RespValue> read_resp(RespSource& source);
// All replies in a text.
std::vector<RespValue> read_resp(std::string_view text);

}  // namespace sluice::tests
