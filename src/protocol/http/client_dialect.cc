#include <openssl/evp.h>

#include <vector>

#include "client/dialect.h"
#include "protocol/http/client_json.h"
#include "wire/http1_response.h"

namespace sluice::http {
namespace client_side {
namespace {

using calls::CodecRead;

class ClientCodec final : public calls::Codec {
 public:
  explicit ClientCodec(const calls::Target& target)
      : has_user_(!target.user.empty() || !target.password.empty()) {}

  CodecRead read(std::string_view in, calls::Replies& replies, base::Buffer&) override {
    using Found = wire::Http1ResponseReader::Found;
    size_t done = 0;
    for (;;) {
      const auto found = response_.next(in.substr(done));
      done += found.consumed;
      if (found.found == Found::incomplete) return {done, client_errc::none, {}};
      if (found.found != Found::response)
        return {done, client_errc::bad_reply, "that is not a response of HTTP/1.1"};
      const calls::Expected* expected = replies.oldest();
      if (expected == nullptr)
        return {done, client_errc::bad_reply, "the server sent a response that answers nothing"};
      client_result result = read_client_answer(response_.status(), response_.body(), *expected);
      if (response_.status() == 401 && result.error == client_errc::refused)
        result.text = has_user_ ? "the server does not accept the user and password (401): correct "
                                  "them, or add the user at the server"
                                : "the server wants a user (401): give USER:PASSWORD@ in the "
                                  "client's address";
      const bool is_broken = result.error == client_errc::bad_reply;
      replies.answer_oldest(std::move(result));
      // What follows would be taken for the answers to other requests.
      if (is_broken) return {done, client_errc::bad_reply, "a response does not fit its request"};
    }
  }

 private:
  const bool has_user_;
  wire::Http1ResponseReader response_;
};

std::string_view path_of(client_verb verb) {
  switch (verb) {
    case client_verb::take:
      return "/v1/take?status=200";
    case client_verb::peek:
      return "/v1/peek";
    case client_verb::wait:
      return "/v1/wait";
    case client_verb::put:
      return "/v1/put";
    case client_verb::reset:
      return "/v1/reset";
    case client_verb::ping:
    case client_verb::list:
      break;
  }
  return "/v1/health";
}

void append_authorization(const calls::Target& target, base::Buffer& out) {
  if (target.user.empty() && target.password.empty()) return;
  const std::string plain = target.user + ":" + target.password;
  std::vector<unsigned char> text((plain.size() + 2) / 3 * 4 + 1);
  EVP_EncodeBlock(text.data(), reinterpret_cast<const unsigned char*>(plain.data()),
                  static_cast<int>(plain.size()));
  out.append("Authorization: Basic ");
  out.append(reinterpret_cast<const char*>(text.data()));
  out.append("\r\n");
}

bool encode(const client_request& request, calls::EncodeContext& context, base::Buffer& out,
            std::string& problem) {
  std::string& body = context.text;
  body.clear();
  const bool is_ping = request.verb == client_verb::ping;
  if (!is_ping) {
    if (base::Done appended = append_client_body(request, body); !appended) {
      problem = std::move(appended).problem().text;
      return false;
    }
  }
  out.append(is_ping ? "GET " : "POST ");
  out.append(path_of(request.verb));
  out.append(" HTTP/1.1\r\nHost: ");
  out.append(context.target.name);
  out.append("\r\nAccept: application/json\r\n");
  append_authorization(context.target, out);
  if (!is_ping) {
    out.append("Content-Type: application/json\r\nContent-Length: ");
    out.append(std::to_string(body.size()));
    out.append("\r\n");
  }
  out.append("\r\n");
  out.append(body);
  return true;
}

constexpr std::string_view schemes[] = {"http"};

}  // namespace
}  // namespace client_side

extern const calls::Dialect client_dialect;
const calls::Dialect client_dialect = {
    .schemes = client_side::schemes,
    .port = 8390,
    .timeout = base::seconds(5),
    .wait_blocks = true,
    .has_users = true,
    .reconnect = {.first = base::milliseconds(100),
                  .longest = base::seconds(2),
                  .growth = calls::Reconnect::Growth::exponential,
                  .factor = 2,
                  .spread = true},
    .make_codec = [](const calls::Target& target) -> std::unique_ptr<calls::Codec> {
      return std::make_unique<client_side::ClientCodec>(target);
    },
    .encode = client_side::encode,
};

}  // namespace sluice::http
