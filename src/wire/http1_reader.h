// Requests of HTTP/1.1 and 1.0 (RFC 9112) from the bytes of a connection, without I/O. One reader
// for each connection, used by one thread.
//
// It takes one reading of a request or none: whatever two parsers might read differently is refused
// (http1_reader.cc has the list with its sections of the RFC).
//
//   head      At most Bounds::head_bytes with its request line and its empty line (414 where the
//             request line alone passes it, else 431), of Bounds::fields fields (431). Lines end
//             with CR LF. A few empty lines in front of it are skipped and do not count.
//   target    Origin form, absolute form (http or https, whose authority then counts in place of
//             Host, which must be the same), or `*` of OPTIONS. Printable ASCII but `#` and `\`.
//   body      Content-Length or `chunked` alone, at most Bounds::body_bytes (413), chunked at most
//             Bounds::chunked_body_bytes as well. A chunked body's lines and trailers are at most
//             Bounds::chunk_bytes over all of it (413); trailers are read and dropped.
//   splits    What is found does not depend on how the input is cut, but for `head`: it is reported
//             where the rest of the request has not come yet. A byte that breaks a head is found
//             when it comes.
//   work      Each byte is looked at once, and those of a target once more.
//   memory    A request of a few fields that comes in one piece and is not chunked allocates
//             nothing, one of many fields their list, unless there is a spare one. One that comes
//             in pieces is copied as far as its body needs it. All but a list of `fields_kept`
//             fields is given back by the first call behind the request that brings no byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http1_chunks.h"
#include "wire/http_field.h"

namespace sluice::wire {

// The head of a request. Views live until the next call of Http1Reader::next.
struct Http1Head {
  std::string_view method;           // as sent: "GET"
  std::string_view path{}, query{};  // as sent, the query without its `?`; "*" of OPTIONS
  std::string_view host{};           // of the target if it has one, else Host; empty: neither
  bool has_query = false;            // there is a `?`
  bool is_http10 = false;
  bool keep_alive = true;        // what the client wants (RFC 9112, 9.3)
  bool awaits_go_ahead = false;  // Expect: 100-continue, and it is HTTP/1.1
  bool has_body = false;         // a body of a byte or more was announced, or it is chunked
  bool is_chunked = false;
  uint64_t body_bytes = 0;              // as announced; 0 of one that is chunked
  std::span<const HttpField> fields{};  // all of them, in order
};

using Http1FieldList = std::vector<HttpField>;

class Http1Reader {
 public:
  struct Bounds {
    size_t head_bytes = size_t{64} << 10;  // at most 1 GiB
    size_t fields = 256;
    size_t body_bytes = size_t{1} << 20;
    size_t chunk_bytes = size_t{64} << 10;
    size_t chunked_body_bytes = SIZE_MAX;
  };
  enum class Use : uint8_t {
    requests,
    // A request that opens another protocol (WebSocket): it is found with its head, whatever body
    // that announces. HTTP/1.1 needs no Host, and one that is ill-formed is taken: older clients
    // write an IPv6 address without brackets (`Host: ::1:3000`).
    handshake,
  };
  enum class Found : uint8_t {
    incomplete,  // more bytes are needed
    head,        // `head()` is there, its body is not; told once for each such request
    request,     // all of it is there
    broken,      // no HTTP, or too much of it: `status()` and `problem()`. It stays so
  };
  struct Result {
    size_t consumed = 0;  // bytes of `in` that must not come again
    Found found = Found::incomplete;
  };

  // Fields that an idle reader has room for.
  static constexpr size_t fields_kept = 8;

  Http1Reader() : Http1Reader(Bounds{}) {}
  // `spare`: an empty list that idle readers of one thread leave to one another, so that a request
  // of many fields allocates nothing either. It outlives them. Null: there is none.
  explicit Http1Reader(const Bounds& bounds, Use use = Use::requests,
                       Http1FieldList* spare = nullptr);
  // Views point into it.
  Http1Reader(const Http1Reader&) = delete;
  Http1Reader& operator=(const Http1Reader&) = delete;

  // Reads from the front of `in`: what was not consumed before and what came since. After
  // `request`: reads the next one. Bytes of a request that is found whole are consumed with it, so
  // views into `in` stay valid as long as `in` does.
  Result next(std::string_view in);

  // After `head` or `request`.
  const Http1Head& head() const { return head_; }
  // After `request`. Lives as long as the views of the head.
  std::string_view body() const { return body_; }
  // The same for the caller to keep, without a copy where the reader has gathered it. Once.
  std::string take_body();

  // After `broken`: the status of the answer (400, 413, 414, 417, 431, 501 or 505), and a sentence
  // for the client (a literal).
  unsigned status() const { return status_; }
  std::string_view problem() const { return problem_; }

  // Is there a part of a request that is not whole?
  bool has_begun() const;
  // Bytes of such a part that were consumed, or that its head says will come.
  size_t unfinished_bytes() const;

 private:
  enum class Phase : uint8_t {
    head,    // its lines are read
    body,    // of a Content-Length, gathered
    chunks,  // of a chunked body, decoded
    done,    // the request was reported
  };
  enum class Part : uint8_t { method, target, version, fields };  // of the head, in this order
  enum class Step : uint8_t { whole, incomplete, refused };
  // Of the request that is read: places in its head by their distance from where that begins.
  // More than twenty members: what the parts of a head say, until all of it is there.
  struct Progress {
    uint32_t at;        // what is before it was looked at
    uint32_t line_at;   // the field's line that is read
    uint32_t colon_at;  // of that line; 0: has not come
    uint32_t method_bytes, target_end;
    uint32_t host_at, host_bytes;
    uint32_t fields;       // so far
    uint32_t empty_lines;  // in front of the request
    Part part;
    bool is_http10, is_absolute, has_host, has_length, has_coding, wants_close, wants_keep_alive,
        expects;
    uint64_t left;  // of the body of a Content-Length
  };
  // A field of a head that is not whole.
  struct Place {
    uint32_t name_at, name_bytes, value_at, value_bytes;
  };

  void begin_request(bool is_idle);
  Result read_head(std::string_view in);
  Step skip_empty_lines(std::string_view& in);
  Step read_request_line(std::string_view in);
  Step read_version(std::string_view in);
  bool check_target(std::string_view in);
  Step read_fields(std::string_view in);
  bool end_fields(std::string_view line, size_t at);
  bool add_field(const HttpField& field, const char* head);
  void make_room();
  void put_fields_by();
  bool read_special_field(const HttpField& field, const char* head);
  bool read_host(std::string_view value, const char* head);
  bool read_coding(std::string_view value);
  bool read_content_length(std::string_view value);
  bool read_connection(std::string_view value);
  bool check_head(std::string_view in);
  void show_head(std::string_view in);
  void set_fields_aside(const char* head);
  void bring_fields_back(const char* head);
  Result begin_body(std::string_view in);
  void keep_head(std::string_view in);
  Result read_body(std::string_view in);
  Result read_chunks(std::string_view in);
  bool refuse(unsigned status, std::string_view problem);
  Step fail(unsigned status, std::string_view problem);
  static Result broken(std::string_view in) { return {in.size(), Found::broken}; }

  const Bounds bounds_;
  const Use use_;
  Http1FieldList* const spare_;
  Phase phase_ = Phase::head;
  bool has_copies_ = false;  // own_head_, own_body_ or places_ are used
  Progress progress_{};
  Http1Head head_;
  std::string_view body_;
  Http1FieldList fields_;
  uint32_t fields_hint_ = 0;   // how many the last request had
  std::vector<Place> places_;  // those of earlier calls
  Http1Chunks chunks_;
  std::string own_head_, own_body_;  // of a request whose body did not come with its head
  unsigned status_ = 0;
  std::string_view problem_;
};

}  // namespace sluice::wire
