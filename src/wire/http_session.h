// The server's side of HTTP/1.1 without I/O: bytes in, one request at a time out; a response in,
// its bytes out. Belongs to one connection and one thread. What is read as a request is
// Http1Reader's to say. What a client may send is bounded: the head by
// base::bounds::http_head_bytes_max, the body by what the owner says.
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
  std::string query;   // as sent, behind the `?`
  std::string body;
  // Headers; empty: not there. The host of a target in absolute form is that one's.
  std::string host, origin, sec_fetch_site, sec_fetch_mode, sec_fetch_dest, authorization,
      content_type, accept;
  std::string peer;  // for people: who sent it, as HttpSession::set_peer
  // Of the body, as the head has it; of a chunked one, whose head does not say, the most that is
  // taken.
  uint64_t body_bytes = 0;
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// `%41` as `A`, and where `plus` is set `+` as a blank; nothing: it is ill-formed.
std::optional<std::string> percent_decoded(std::string_view text, bool plus);

// The other way: but for letters, digits and `-._~` every byte as `%2F`.
std::string percent_encoded(std::string_view text);

// The value of a query's key, decoded; nothing: it is not there or ill-formed.
std::optional<std::string> query_value(std::string_view query, std::string_view key);

// A chunked body, and what the owner takes at most. Past it: 413.
inline constexpr size_t http_chunked_body_bytes_max = size_t{1} << 20;

// "Not Found"; "<unknown-status>" of a status that has none.
std::string http_reason(unsigned status);

class HttpSession {
 public:
  explicit HttpSession(size_t body_bytes_max);

  enum class Found : uint8_t {
    nothing,  // more bytes are needed; those that were not consumed come again
    head,     // the same, once: request() has all but its body, so it may be refused now
    request,  // request() is there; it wants a response
    broken,   // no HTTP, or too much of it: `refusal` is the response, and then the end
  };
  struct Received {
    size_t consumed = 0;
    Found found = Found::nothing;
  };
  // For people: who is at the other end, "127.0.0.1:4711"; of all requests from here on.
  void set_peer(std::string peer) { peer_ = std::move(peer); }
  // Not while a request wants its response.
  Received receive(std::string_view in);

  // Until the response is given.
  const HttpRequest& request() const { return request_; }
  // What is wrong with a broken request: the status, and why.
  unsigned refusal_status() const { return refusal_status_; }
  const std::string& refusal() const { return refusal_; }
  // Is there part of a request?
  bool has_begun() const { return is_whole_ || reader_.has_begun(); }

  // Does the client wait for `append_go_ahead` before it sends its body?
  bool awaits_go_ahead() const { return awaits_go_ahead_; }
  static void append_go_ahead(std::string& out);
  // False: the connection ends with it. `last`: it is to end, as it does anyway where the request
  // is not whole.
  bool reply(const HttpResponse& response, bool last, std::string& out);

 private:
  Received refuse(size_t consumed);
  void take_head();

  const size_t body_bytes_max_, chunked_bytes_max_;
  Http1Reader reader_;
  std::string peer_;
  HttpRequest request_;
  unsigned refusal_status_ = 0;
  std::string refusal_;
  // Of the request: it waits for its response.
  bool is_whole_ = false, keep_alive_ = false, is_head_ = false, awaits_go_ahead_ = false;
};

}  // namespace sluice::wire
