#include "client/looks_like.h"

#include <algorithm>

namespace sluice::calls {
namespace {

struct Beginning {
  std::string_view bytes;
  const char* speaker;
};

// The longest first where one begins another.
constexpr Beginning beginnings[] = {
    {"HTTP/", "an HTTP server"},
    {"-NOAUTH", "a Redis server"},
    {"-ERR", "a Redis server"},
    {"-DENIED", "a Redis server"},
    {"SSH-", "an SSH server"},
    {"ERR ", "a server of a line protocol"},
    {"OK ", "a server of a line protocol"},
    {std::string_view("\x15\x03", 2), "a TLS server"},
    {std::string_view("\x16\x03", 2), "a TLS server"},
};

// A SETTINGS frame on stream 0: three bytes of length, the type, flags and four zeros.
bool is_http2(std::string_view bytes) {
  return bytes.size() >= 9 && bytes[0] == 0 && bytes[3] == 4 &&
         bytes.substr(5, 4) == std::string_view("\0\0\0\0", 4);
}

}  // namespace

std::string looks_like(std::string_view first_bytes) {
  const auto* const at = std::ranges::find_if(
      beginnings, [&](const Beginning& one) { return first_bytes.starts_with(one.bytes); });
  const char* const speaker = at != std::end(beginnings) ? at->speaker
                              : is_http2(first_bytes)    ? "an HTTP/2 or gRPC server"
                                                         : nullptr;
  if (speaker == nullptr) return "";
  return std::string("; it answers as ") + speaker + " does: is that the port you mean?";
}

}  // namespace sluice::calls
