// Any bytes must give the same requests and refusals in one piece and in pieces, within the memory
// that the bounds allow. The first byte says how the rest is cut.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/bounds.h"
#include "wire/http_session.h"

namespace {

using sluice::wire::HttpSession;

constexpr size_t body_max = 256;

std::string told(std::string_view text, size_t step) {
  HttpSession session(body_max);
  std::string out, in;
  while (true) {
    const auto [consumed, found] = session.receive(in);
    if (consumed > in.size()) std::abort();
    in.erase(0, consumed);
    if (in.size() > sluice::base::bounds::http_head_bytes_max + step) std::abort();
    switch (found) {
      case HttpSession::Found::request: {
        const auto& r = session.request();
        if (r.body.size() > body_max) std::abort();
        out += r.method + " " + r.path + "?" + r.query + " " + r.host + " " + r.body + "\n";
        std::string bytes;
        if (!session.reply({200, "text/plain", "ok", {}}, false, bytes)) return out + "end";
        if (!bytes.starts_with("HTTP/1.1 200 OK\r\n")) std::abort();
        continue;
      }
      case HttpSession::Found::broken:
        if (session.refusal().empty()) std::abort();
        return out + std::to_string(session.refusal_status());
      case HttpSession::Found::head:
        continue;
      case HttpSession::Found::nothing:
        break;
    }
    if (text.empty()) return out;
    in += text.substr(0, step);
    text.remove_prefix(std::min(step, text.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t step = size_t{data[0]} + 1;
  const std::string whole = told(text, text.size() + 1), split = told(text, step);
  if (whole != split) {
    std::fprintf(stderr, "whole:\n%s\nsplit:\n%s\n", whole.c_str(), split.c_str());
    std::abort();
  }
  sluice::wire::query_value(text, "a");
  return 0;
}
