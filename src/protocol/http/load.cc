#include "protocol/load.h"

#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/http2_load.h"

namespace sluice::http {
namespace http_load {
namespace {

using protocol::LoadOutcome;

// The body of a take to which the first rule of tools/bench_common.py applies.
std::string take_body(std::string_view key) {
  return R"({"entries": {"method": "POST", "path": "/bench", "ip": ")" + std::string(key) +
         R"("}, "n": 1})";
}

// throttlecrab's question about a counter, and the take that equals it: a counter and its limit.
std::string throttle_body(std::string_view key) {
  return R"({"key": ")" + std::string(key) +
         R"(", "max_burst": 1000000000, "count_per_period": 1000000000, "period": 86400, )"
         R"("quantity": 1})";
}
std::string inline_body(std::string_view key) {
  return R"({"key": ")" + std::string(key) +
         R"(", "limits": [{"quota": 1000000000, "window": 86400, "burst": 1000000001}], "n": 1})";
}

LoadOutcome outcome_of_body(std::string_view body) {
  if (body.find("\"allowed\": true") != body.npos) return LoadOutcome::allowed;
  return body.find("\"allowed\": false") == body.npos ? LoadOutcome::error : LoadOutcome::denied;
}

// The size of the response at the start of `text`, whose body has a Content-Length; 0: it is not
// complete yet.
size_t response_bytes(std::string_view text, unsigned& status, std::string_view& body) {
  const size_t head = text.find("\r\n\r\n");
  if (head == text.npos) return 0;
  constexpr std::string_view length_field = "\r\nContent-Length: ";
  const size_t field = text.substr(0, head).find(length_field);
  size_t length = 0;
  if (field != text.npos) {
    const std::string_view digits = text.substr(field + length_field.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), length);
  }
  status = 0;
  if (text.size() > 12) std::from_chars(text.data() + 9, text.data() + 12, status);
  const size_t end = head + 4 + length;
  if (text.size() < end) return 0;
  body = text.substr(head + 4, length);
  return end;
}

class PostClient : public protocol::OrderedLoadClient {
 public:
  PostClient(std::string_view path, std::string (*body_of)(std::string_view key))
      : path_(path), body_of_(body_of) {}
  void append_request(std::string_view key, std::string& out) override {
    const std::string body = body_of_(key);
    out += "POST " + path_ +
           " HTTP/1.1\r\nHost: 127.0.0.1:8390\r\nContent-Type: application/json\r\n"
           "Content-Length: ";
    out += std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    unsigned status = 0;
    std::string_view body;
    const size_t bytes = response_bytes(text, status, body);
    outcome = outcome_of_body(body);
    return bytes;
  }

 private:
  const std::string path_;
  std::string (*const body_of_)(std::string_view key);
};

struct TakeClient final : PostClient {
  TakeClient() : PostClient("/v1/take", take_body) {}
};
struct ThrottleClient final : PostClient {
  ThrottleClient() : PostClient("/throttle", throttle_body) {}
};
struct InlineClient final : PostClient {
  InlineClient() : PostClient("/v1/take", inline_body) {}
};

// Sends requests as nginx does in forward-auth, with the fields of a browser.
class AuthClient final : public protocol::OrderedLoadClient {
 public:
  void append_request(std::string_view key, std::string& out) override {
    out +=
        "GET /auth/bench HTTP/1.1\r\nHost: sluice\r\nX-Original-URI: /bench?x=1\r\n"
        "X-Original-Method: POST\r\nX-Original-Host: shop.example\r\nX-Real-IP: 10.0.0.1\r\n"
        "X-Api-Key: ";
    out += key;
    out +=
        "\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0\r\n"
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
        "Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n\r\n";
  }
  size_t read_reply(std::string_view text, LoadOutcome& outcome) const override {
    unsigned status = 0;
    std::string_view body;
    const size_t bytes = response_bytes(text, status, body);
    outcome = status == 200   ? LoadOutcome::allowed
              : status == 403 ? LoadOutcome::denied
                              : LoadOutcome::error;
    return bytes;
  }
};

constexpr protocol::http2_load::Fields header_fields = {{":path", "/v1/take"},
                                                        {":authority", "127.0.0.1:8390"},
                                                        {"content-type", "application/json"},
                                                        {"accept", "application/json"}};

class Http2Client final : public protocol::LoadClient {
 public:
  std::string_view greeting() const override { return greeting_; }
  void append_request(std::string_view key, std::string& out) override {
    protocol::append_http2_load_request(take_body(key), out);
  }
  std::unique_ptr<protocol::LoadConnection> connect() const override {
    return std::make_unique<protocol::Http2LoadConnection>(first_block_, outcome_of_body);
  }

 private:
  const std::string first_block_ = protocol::http2_load::first_headers(header_fields);
  const std::string greeting_ = protocol::http2_load_greeting();
};

template <class Client>
std::unique_ptr<protocol::LoadClient> make() {
  return std::make_unique<Client>();
}

// Counts requests: finds the end of each head and skips the body, and reads nothing else.
protocol::LoadRequests count_requests(std::string_view text) {
  return protocol::count_frames(text, [](std::string_view rest) -> size_t {
    const size_t head = rest.find("\r\n\r\n");
    if (head == rest.npos) return 0;
    constexpr std::string_view length_field = "\r\nContent-Length: ";
    const size_t field = rest.substr(0, head).find(length_field);
    size_t length = 0;
    if (field != rest.npos)
      std::from_chars(rest.data() + field + length_field.size(), rest.data() + head, length);
    return head + 4 + length;
  });
}

constexpr protocol::LoadVariant variants[] = {
    {"auth",
     {.make_client = make<AuthClient>,
      .count_requests = count_requests,
      .reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: Tue, 24 Nov 2026 20:15:23 GMT\r\n"
               "Cache-Control: no-store\r\nRateLimit-Policy: \"auth\";q=1000000000;w=86400\r\n"
               "RateLimit: \"auth\";r=999999999;t=1\r\nX-Sluice-Remaining: 999999999\r\n"
               "X-Sluice-Rule: auth\r\n\r\n"}},
    {"h2", {.make_client = make<Http2Client>}},
    {"throttle", {.make_client = make<ThrottleClient>, .count_requests = count_requests}},
    {"inline", {.make_client = make<InlineClient>, .count_requests = count_requests}}};

}  // namespace
}  // namespace http_load

extern const protocol::Load load;
const protocol::Load load = {
    .make_client = http_load::make<http_load::TakeClient>,
    .count_requests = http_load::count_requests,
    .reply =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 156\r\n"
        "Date: Tue, 24 Nov 2026 20:15:23 GMT\r\nCache-Control: no-store\r\n"
        "RateLimit-Policy: \"take\";q=1000000000;w=86400\r\n"
        "RateLimit: \"take\";r=999999999;t=1\r\n\r\n"
        "{\"allowed\": true, \"limit\": 1000000000, \"remaining\": 999999999, "
        "\"retry_after\": 0, \"reset_after\": 0.001, \"rule\": \"take\", "
        "\"mode\": \"enforce\", \"generation\": 1}"
        "          ",
    .variants = http_load::variants,
};

}  // namespace sluice::http
