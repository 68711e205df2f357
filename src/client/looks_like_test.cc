// What another program at the port seems to be, by its answer (client/looks_like.h).
#include "client/looks_like.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace sluice::calls {
namespace {

TEST(LooksLike, RecognizesServersOfOtherProtocols) {
  const std::pair<std::string_view, const char*> cases[] = {
      {"HTTP/1.1 400 Bad Request\r\n", "an HTTP server"},
      {"-ERR unknown command\r\n", "a Redis server"},
      {"ERR unknown-command \"x\"\n", "a server of a line protocol"},
      {std::string_view("\x15\x03\x01\x00\x02", 5), "a TLS server"},
      {std::string_view("\0\0\x0c\x04\0\0\0\0\0\0\x03", 11), "an HTTP/2 or gRPC server"}};
  for (const auto& [bytes, speaker] : cases)
    EXPECT_EQ(looks_like(bytes),
              std::string("; it answers as ") + speaker + " does: is that the port you mean?");
  for (const std::string_view bytes : {"", "O", "HTTP", "x", "\x08\x01"})
    EXPECT_EQ(looks_like(bytes), "") << bytes;
}

}  // namespace
}  // namespace sluice::calls
