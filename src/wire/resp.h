// The Redis serialization protocol, RESP2 and RESP3: a reader of commands and a writer of replies
// for a server, a writer of commands and a reader of replies for a client. The caller knows the
// meaning of commands. Each connection has a reader, owned by its session and used by its thread;
// writers are plain values.
//
// A reader must be given all bytes of the connection that it has not consumed, in one piece. It
// consumes complete commands (replies), and remembers its place in an incomplete one, so that each
// byte is examined a bounded number of times, however the input is cut. After it has grown to the
// largest command it allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/buffer.h"

namespace sluice::wire {

// The longest line: an inline command, the count of an array, the length of a word.
inline constexpr size_t resp_line_bytes_max = 64 << 10;

// The bounds of a command. Beyond any of them it is an error of the protocol.
struct RespBounds {
  size_t words = 1024;
  size_t word_bytes = 64 << 10;
  size_t command_bytes = 1 << 20;  // from its `*` to the end of its last word
};

// ---- Commands ----

// Reads commands: arrays of bulk strings or integers (`:5` is the word "5"), and inline commands.
// Empty and null arrays and empty lines are skipped. As in Redis, any byte may stand for the LF
// after a CR, and any two bytes for the line end after a word.
//
//   inline   A line that does not begin with `*`. Words are separated by blanks (space, tab, CR,
//            VT, FF). In `"..."` the escapes are \n \r \t \b \a \xHH, and another character after a
//            backslash means itself; in `'...'` the escape is \'. A quote may open within a word;
//            after the closing quote a blank or the end must follow. LF ends the line; a CR before
//            it is dropped.
//   bounds   RespBounds, and resp_line_bytes_max for every line. At most
//            command_bytes + resp_line_bytes_max bytes are left unconsumed.
//   work     A byte of a line is examined twice, once in the search for the line's end; the bytes
//            of a word are not examined. For an incomplete command a call costs O(1).
class RespCommandReader {
 public:
  enum class Found : uint8_t {
    command,     // a command: see `words`
    incomplete,  // bytes are missing: call again with more
    broken,      // send `error`, then close
    http,        // an inline command POST or Host:, from a web page that posts to this port: close
  };
  struct Result {
    Found found;
    size_t consumed;  // bytes from the front of `in`; for `incomplete` those that were skipped
  };

  explicit RespCommandReader(const RespBounds& bounds = {}) : bounds_(bounds) {}

  // Reads one command from the front of `in`. The next call must be given the rest of the same
  // bytes, perhaps with more after them. After `broken` or `http` every call returns the same, and
  // consumes everything. `texts` receives inline words that differ from the bytes of `in`.
  Result next(std::string_view in, base::Arena& texts);

  // The words of the command, at least one: views into `in` or `texts`, in a list that is valid
  // until the next call.
  std::span<const std::string_view> words() const { return words_; }
  // After `broken`: "ERR Protocol error: ...", without line ends.
  std::string_view error() const { return error_; }

  // Frees the memory of a long list. `words` is void after that.
  void release();

 private:
  enum class Step : uint8_t { command, passed_over, incomplete, broken, http };
  struct WordPlace {
    uint32_t offset, bytes;
  };

  Step read_array(std::string_view in, size_t& end);
  Step read_inline(std::string_view in, base::Arena& texts, size_t& end);
  Step read_count(std::string_view in);
  Step read_word(std::string_view in);
  bool split(std::string_view line, base::Arena& texts);
  Step fail(std::string_view why);

  RespBounds bounds_;
  // Offsets in an incomplete command: the bytes before `position_` were read (0: not even the
  // array's count), and the line from there on was searched up to `scanned_`.
  size_t position_ = 0, scanned_ = 0;
  size_t left_ = 0;  // the number of words whose headers were not read
  std::vector<WordPlace> places_;
  std::vector<std::string_view> words_;
  std::string error_;
  bool http_ = false;
};

// Appends a command as an array of bulk strings.
void append_resp_command(std::span<const std::string_view> words, base::Buffer& out);

// ---- Replies ----

enum class RespVersion : uint8_t { resp2 = 2, resp3 = 3 };

// Appends replies. In RESP2 the types of RESP3 have a substitute: a map is a flat list, a boolean 1
// or 0, a double a text. Line ends in simple strings and errors become blanks.
class RespWriter {
 public:
  RespWriter(base::Buffer& out, RespVersion version) : out_(out), version_(version) {}

  void simple(std::string_view text) { line('+', text); }
  void error(std::string_view text) { line('-', text); }
  void integer(int64_t value) { head(':', value); }
  // A list of integers with its header.
  void integers(std::span<const int64_t> values);
  void bulk(std::string_view text);
  void null();
  void null_list();
  // The header of a list; `count` replies must follow. After that of a map, `count` keys and
  // values.
  void list(size_t count) { head('*', static_cast<int64_t>(count)); }
  void map(size_t count);
  void boolean(bool value);
  // Replies that are complete already.
  void raw(std::string_view replies) { out_.append(replies); }
  void number(double value);

 private:
  void line(char type, std::string_view text);
  void head(char type, int64_t value);

  base::Buffer& out_;
  RespVersion version_;
};

// One reply, or the head of a list, whose items follow.
struct RespItem {
  enum class Kind : uint8_t {
    simple,      // `text`
    error,       // `text`
    integer,     // `number`
    bulk,        // `text`; for a verbatim string the text after its format
    null,        //
    boolean,     // `number` 1 or 0
    real,        // `real`
    big_number,  // `text`
    list,        // a list, a set or a push: `count` items follow
    map,         // `count` pairs of items follow
    attributes,  // as map; then the reply follows to which they belong
  };
  Kind kind = Kind::null;
  bool push = false;  // list: not the answer to a command
  std::string_view text{};
  int64_t number = 0;
  double real = 0;
  size_t count = 0;
};

// The bounds of a reader of replies. Beyond either: broken.
struct RespReplyBounds {
  size_t bytes = 64 << 20;  // of one reply, and of one text in it
  size_t items = 1 << 20;   // of one reply
};

// Finds the ends of replies. Streamed replies (`$?`, `*?`) are broken; no server sends them.
class RespReplyReader {
 public:
  enum class Found : uint8_t { reply, incomplete, broken };
  struct Result {
    Found found;
    size_t consumed;  // the size of the reply; 0: it is not complete
  };

  explicit RespReplyReader(const RespReplyBounds& bounds = {}) : bounds_(bounds) {}

  // Looks for the end of the reply at the front of `in`; called as RespCommandReader::next. After
  // `broken` every call returns that.
  Result next(std::string_view in);

 private:
  RespReplyBounds bounds_;
  size_t position_ = 0, scanned_ = 0;  // as RespCommandReader's
  size_t left_ = 1, items_ = 0;        // items of the reply that are missing, and that were read
  bool broken_ = false;
};

// Walks over the items of a reply that RespReplyReader found; the head of a list precedes its
// items.
class RespItems {
 public:
  explicit RespItems(std::string_view reply) : rest_(reply) {}
  // False: there is no further item, or it is not a reply.
  bool next(RespItem& item);

 private:
  std::string_view rest_;
};

// ---- Words ----

// Reads a number as RESP's headers have it: decimal, perhaps with `-`, without `+` and leading
// zeros. False: it is not such a number, or does not fit.
bool read_resp_number(std::string_view text, int64_t& value);

}  // namespace sluice::wire
