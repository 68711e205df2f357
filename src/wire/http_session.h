// The server's side of HTTP/1.1, without input and output of its own: it turns bytes into one
// request at a time, and a response into bytes. Belongs to one connection and one thread.
// Http1Reader reads the requests. The head is bounded by base::bounds::http_head_bytes_max, the
// body by the owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/http1_reader.h"
#include "wire/http_field.h"

namespace sluice::wire {

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // as sent, without the query: "/v1/rules"
  std::string query;   // as sent, without the `?`
  std::string body;
  // Headers; empty: missing. If the target is in absolute form, `host` is the target's. A request
  // that has one of those that say who asks (from `origin` to `authorization`) twice is broken.
  std::string host, origin, sec_fetch_site, sec_fetch_mode, sec_fetch_dest, authorization,
      content_type, accept;
  std::string peer;  // for people: the client, as in HttpSession::set_peer
  // The size of the body from the head; for a chunked body, whose head does not tell, the most that
  // is accepted.
  uint64_t body_bytes = 0;
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Decodes `%41` to `A`, and if `plus` is true `+` to a blank; empty: the text is ill-formed.
std::optional<std::string> percent_decoded(std::string_view text, bool plus);

// Encodes every byte except letters, digits and `-._~`, as in `%2F`.
std::string percent_encoded(std::string_view text);

// The decoded value of a query's key; empty: it is missing or ill-formed.
std::optional<std::string> query_value(std::string_view query, std::string_view key);

// The most bytes of a chunked body, besides the owner's bound. Beyond it: 413.
inline constexpr size_t http_chunked_body_bytes_max = size_t{1} << 20;

// "Not Found"; "<unknown-status>" for a status without a reason.
std::string http_reason(unsigned status);

class HttpSession {
 public:
  explicit HttpSession(size_t body_bytes_max);

  enum class Found : uint8_t {
    nothing,  // more bytes are needed, after those that were not consumed
    head,     // the same, reported once: request() has all but the body, so it may be refused now
    request,  // request() is complete, and must be answered
    broken,   // not HTTP, or beyond a bound: answer with `refusal`, then close
  };
  struct Received {
    size_t consumed = 0;
    Found found = Found::nothing;
  };
  // Sets HttpRequest::peer of all following requests: the client's address, "127.0.0.1:4711".
  void set_peer(std::string peer) { peer_ = std::move(peer); }
  // Must not be called while a request waits for its response.
  Received receive(std::string_view in);

  // Valid until the response is given.
  const HttpRequest& request() const { return request_; }
  // With all of its fields. Valid until the next `receive`, and as long as what it was given.
  const Http1Head& head() const { return reader_.head(); }
  // The status and the problem of a broken request.
  unsigned refusal_status() const { return refusal_status_; }
  const std::string& refusal() const { return refusal_; }
  // Whether a request has begun.
  bool has_begun() const { return is_whole_ || reader_.has_begun(); }

  // As Http1Reader::unfinished_bytes.
  size_t unfinished_bytes() const { return reader_.unfinished_bytes(); }

  // Whether the client waits for `append_go_ahead` before it sends its body.
  bool awaits_go_ahead() const { return awaits_go_ahead_; }
  static void append_go_ahead(std::string& out);
  // Appends the response. False: the connection must end after it. `last`: the owner ends the
  // connection; it also ends if the request is incomplete.
  bool reply(const HttpResponse& response, bool last, std::string& out);

 private:
  Received refuse(size_t consumed);
  bool take_head();

  const size_t body_bytes_max_, chunked_bytes_max_;
  Http1Reader reader_;
  std::string peer_;
  HttpRequest request_;
  unsigned refusal_status_ = 0;
  std::string refusal_;
  // Flags of the request; is_whole_: it waits for its response.
  bool is_whole_ = false, keep_alive_ = false, is_head_ = false, awaits_go_ahead_ = false;
};

}  // namespace sluice::wire
