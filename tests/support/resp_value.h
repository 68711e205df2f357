// Replies of the Redis protocol as trees. They are read by the form that RESP2 and RESP3 give them
// and by nothing of the program's, so that they may judge that. What is not a reply is thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::tests {

// A reply as a tree.
struct RespValue {
  enum class Type : uint8_t { simple, error, integer, bulk, null, boolean, real, list, map };
  Type type = Type::null;
  std::string text{};             // of simple, error, bulk, real
  int64_t number = 0;             // of integer; boolean: 0 or 1
  std::vector<RespValue> list{};  // of list; of map a key and a value in turn
};
// As redis-cli shows it, in one line.
std::string to_text(const RespValue& value);
void PrintTo(const RespValue& value, std::ostream* out);

// A command as clients send it.
std::string to_resp(const std::vector<std::string>& words);

// Where the bytes of replies come from.
class RespSource {
 public:
  virtual ~RespSource() = default;
  // The next line without its LF; nothing at the end, in front of a line.
  virtual std::optional<std::string> line() = 0;
  // The next bytes, that many; nothing: there are not as many.
  virtual std::optional<std::string> bytes(size_t count) = 0;
};
// Nothing: the source ended in front of a reply. Throws when it ends within one.
std::optional<RespValue> read_resp(RespSource& source);
// All replies that a text consists of.
std::vector<RespValue> read_resp(std::string_view text);

}  // namespace sluice::tests
