// The Redis serialization protocol, RESP2 and RESP3: a reader of commands and a writer of replies
// for a server, a writer of commands and a reader of replies for a client. What the commands mean
// is not its matter. One reader per connection, owned by its session, used by its thread; the
// writers are plain values.
//
// Readers are given the bytes of the connection that have not been consumed, in one piece, from the
// first one on. They consume whole commands (replies) and keep the place where they stopped in one
// that is not whole, so that each byte is looked at a bounded number of times, however the input is
// cut. Once they have grown to the largest command they allocate nothing.
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

// What one command may have. Past any: an error of the protocol.
struct RespBounds {
  size_t words = 1024;
  size_t word_bytes = 64 << 10;
  size_t command_bytes = 1 << 20;  // from its `*` to the end of its last word
};

// ---- Commands ----

// Reads commands: arrays of bulk strings, of which some may be integers (`:5`, the word "5"), and
// inline commands. Empty and null arrays and empty lines are skipped. As Redis does, it takes
// any byte for the LF behind a CR, and any two for the line end behind a word.
//
//   inline   a line that does not begin with `*`. Words are separated by blanks (space, tab, CR,
//            VT, FF). `"..."` with \n \r \t \b \a \xHH, any other character behind a backslash
//            stands for itself; `'...'` with \'. Quotes may open within a word and must be followed
//            by a blank or the end when they close. LF ends it; a CR before that is dropped.
//   bounds   RespBounds, and resp_line_bytes_max for every line. At most
//            command_bytes + resp_line_bytes_max bytes are left unconsumed.
//   work     A byte of a line is searched once for its end and read once; a word's bytes are not
//            looked at. An incomplete command costs O(1) for each call that brings nothing whole.
class RespCommandReader {
 public:
  enum class Found : uint8_t {
    command,     // `words`
    incomplete,  // nothing, or a command of which bytes are missing: call again with more
    broken,      // `error`; close when it is sent
    http,        // an inline command POST or Host:, a web page that posts to this port: close
  };
  struct Result {
    Found found;
    size_t consumed;  // from the front of `in`; with `incomplete` what was skipped
  };

  explicit RespCommandReader(const RespBounds& bounds = {}) : bounds_(bounds) {}

  // Reads one command from the front of `in`. The next call is given the rest of the same bytes,
  // and more behind them. After `broken` or `http` it is the same for ever, and consumes all.
  // `texts` holds inline words that do not stand in `in` as they are meant.
  Result next(std::string_view in, base::Arena& texts);

  // Of the command that was found, at least one: views into `in` or `texts`, in a list that lives
  // until the next call.
  std::span<const std::string_view> words() const { return words_; }
  // Of `broken`: "ERR Protocol error: ...", without line ends.
  std::string_view error() const { return error_; }

  // Gives back the memory of the list, where it is a long one. `words` are void then.
  void release();

 private:
  enum class Step : uint8_t { command, passed_over, incomplete, broken, http };
  struct Place {
    uint32_t offset, bytes;
  };

  Step read_array(std::string_view in, size_t& end);
  Step read_inline(std::string_view in, base::Arena& texts, size_t& end);
  Step read_count(std::string_view in);
  Step read_word(std::string_view in);
  bool split(std::string_view line, base::Arena& texts);
  Step fail(std::string_view why);

  RespBounds bounds_;
  // Of a command that is not whole, by the distance from where it begins: all before `position_` is
  // read (0: an array's count is not), and the line there has been searched up to `scanned_`.
  size_t position_ = 0, scanned_ = 0;
  size_t left_ = 0;  // words of the array whose headers are missing
  std::vector<Place> places_;
  std::vector<std::string_view> words_;
  std::string error_;
  bool http_ = false;
};

// Appends a command as an array of bulk strings.
void append_resp_command(std::span<const std::string_view> words, base::Buffer& out);

// ---- Replies ----

enum class RespVersion : uint8_t { resp2 = 2, resp3 = 3 };

// Appends replies, of RESP3 types in the form that RESP2 has for them: a map is a flat list, a
// boolean 1 or 0, a double a text. Line ends in simple strings and errors become blanks.
class RespWriter {
 public:
  RespWriter(base::Buffer& out, RespVersion version) : out_(out), version_(version) {}

  void simple(std::string_view text) { line('+', text); }
  void error(std::string_view text) { line('-', text); }
  void integer(int64_t value) { head(':', value); }
  // A list of integers, header included.
  void integers(std::span<const int64_t> values);
  void bulk(std::string_view text);
  void null();
  void null_list();
  // Followed by so many replies; of a map by a key and a value each.
  void list(size_t count) { head('*', static_cast<int64_t>(count)); }
  void map(size_t count);
  void boolean(bool value);
  // Complete replies.
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
    bulk,        // `text`; of a verbatim string what follows its format
    null,        //
    boolean,     // `number` 1 or 0
    real,        // `real`
    big_number,  // `text`
    list,        // `count` items follow: of a list, a set, a push
    map,         // `count` pairs of items follow
    attributes,  // as map; and then the reply that they are about
  };
  Kind kind = Kind::null;
  bool push = false;  // list: nothing that was asked for
  std::string_view text{};
  int64_t number = 0;
  double real = 0;
  size_t count = 0;
};

// What a reader of replies takes at most. Past either: broken.
struct RespReplyBounds {
  size_t bytes = 64 << 20;  // of one reply, and of one text in it
  size_t items = 1 << 20;   // of one reply
};

// Finds where replies end. Streamed replies (`$?`, `*?`) are broken; no server sends them.
class RespReplyReader {
 public:
  enum class Found : uint8_t { reply, incomplete, broken };
  struct Result {
    Found found;
    size_t consumed;  // the bytes of the reply, else 0
  };

  explicit RespReplyReader(const RespReplyBounds& bounds = {}) : bounds_(bounds) {}

  // Of the reply at the front of `in`; called as RespCommandReader::next. After `broken` it is so
  // for ever.
  Result next(std::string_view in);

 private:
  RespReplyBounds bounds_;
  size_t position_ = 0, scanned_ = 0;  // as RespCommandReader's
  size_t left_ = 1, items_ = 0;        // items of the reply that are missing, and that there are
  bool broken_ = false;
};

// Walks over the items of a reply that RespReplyReader found, heads in front of what they head.
class RespItems {
 public:
  explicit RespItems(std::string_view reply) : rest_(reply) {}
  // False: that was the last one, or it is not a reply.
  bool next(RespItem& item);

 private:
  std::string_view rest_;
};

// ---- Words ----

// A number as RESP's headers have it: decimal, `-` in front or not, no `+`, no zeros in front.
// False: it is none, or does not fit.
bool read_resp_number(std::string_view text, int64_t& value);

}  // namespace sluice::wire
