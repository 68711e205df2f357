#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "access/users.h"
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
      : has_user_(!target.user.empty() || !target.token.empty()) {}

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
      if (expected->verb == client_verb::command) {
        client_result result;
        result.status = response_.status();
        result.reply = response_.body();
        replies.answer_oldest(std::move(result));
        continue;
      }
      client_result result = read_client_answer(response_.status(), response_.body(), *expected);
      if (response_.status() == 401 && result.error == client_errc::refused)
        result.text = has_user_ ? "the server does not accept the user and token (401): correct "
                                  "them, or add the user at the server"
                                : "the server wants a user (401): give USER:TOKEN@ in the "
                                  "client's address";
      const bool is_broken = result.error == client_errc::bad_reply;
      replies.answer_oldest(std::move(result));
      // Ends the connection: later responses could be matched to the wrong requests.
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
    case client_verb::charge:
      return "/v1/charge";
    case client_verb::reserve:
      return "/v1/reserve";
    case client_verb::acquire:
      return "/v1/acquire";
    case client_verb::extend:
      return "/v1/extend";
    case client_verb::renew:
      return "/v1/renew";
    case client_verb::commit:
      return "/v1/commit";
    case client_verb::release:
      return "/v1/release";
    case client_verb::ping:
    case client_verb::list:
    case client_verb::command:
      break;
  }
  return "/v1/health";
}

// `path` includes the query. A GET without a body has no Content-Length; other methods always have.
void append_request(std::string_view method, std::string_view path, std::string_view body,
                    const calls::Target& target, base::Buffer& out) {
  out.append(method);
  out.append(" ");
  out.append(path);
  out.append(" HTTP/1.1\r\nHost: ");
  out.append(target.name);
  out.append("\r\nAccept: application/json\r\n");
  const std::string authorization = access::authorization_of(target.user, target.token);
  if (!authorization.empty()) {
    out.append("Authorization: ");
    out.append(authorization);
    out.append("\r\n");
  }
  if (!body.empty()) out.append("Content-Type: application/json\r\n");
  if (!body.empty() || method != "GET") {
    out.append("Content-Length: ");
    out.append(std::to_string(body.size()));
    out.append("\r\n");
  }
  out.append("\r\n");
  out.append(body);
}

// Checks METHOD PATH [BODY]. HEAD and CONNECT are refused, because their responses cannot be read:
// that to HEAD announces a body that it does not have, and no HTTP follows CONNECT's.
base::Done check_command(const std::vector<std::string_view>& words) {
  if (words.size() < 2 || words.size() > 3)
    return base::Problem{"a command must have a method, a path and perhaps a body"};
  const bool is_method =
      std::all_of(words[0].begin(), words[0].end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (!is_method || words[0].empty() || words[0] == "HEAD" || words[0] == "CONNECT")
    return base::Problem{
        "the method of a command must be in capitals, and neither HEAD nor CONNECT"};
  const bool is_path =
      std::all_of(words[1].begin(), words[1].end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (!is_path || !words[1].starts_with('/'))
    return base::Problem{"the path of a command must begin with `/` and be percent-encoded"};
  return {};
}

base::Done encode(const client_request& request, calls::EncodeContext& context, base::Buffer& out) {
  if (request.verb == client_verb::command) {
    if (base::Done checked = check_command(request.words); !checked) return checked;
    const bool has_body = request.words.size() > 2;
    append_request(request.words[0], request.words[1],
                   has_body ? request.words[2] : std::string_view(), context.target, out);
    return {};
  }
  std::string& body = context.text;
  body.clear();
  const bool is_ping = request.verb == client_verb::ping;
  if (!is_ping) {
    if (base::Done appended = append_client_body(request, body); !appended) return appended;
  }
  append_request(is_ping ? "GET" : "POST", path_of(request.verb), body, context.target, out);
  return {};
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
