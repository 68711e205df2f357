// Writes JSON (RFC 8259) behind what a buffer or a text has, without a tree of it: for answers that
// must not allocate, and for rooms below those that link a library of JSON. One thread.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice::base {

// A string with its quotes. Bytes that are not UTF-8 are written as U+FFFD.
void append_json_text(std::string_view text, Buffer& out);
void append_json_text(std::string_view text, std::string& out);

// Compact, or with a space behind commas and colons.
enum class JsonForm { compact, spaced };

// Puts the commas. A value in an object comes after its `name`.
template <class Out>
class JsonWriter {
 public:
  explicit JsonWriter(Out& out, JsonForm form = JsonForm::compact)
      : out_(out),
        comma_(form == JsonForm::spaced ? ", " : ","),
        colon_(form == JsonForm::spaced ? ": " : ":") {}
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void open_object() { open("{"); }
  void close_object() { close("}"); }
  void open_list() { open("["); }
  void close_list() { close("]"); }
  void name(std::string_view name) {
    begin();
    append_json_text(name, out_);
    out_.append(colon_);
    is_named_ = true;
  }
  void text(std::string_view text) {
    begin();
    append_json_text(text, out_);
  }
  // A text of JSON: `null`.
  void raw(std::string_view json) {
    begin();
    out_.append(json);
  }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  // A finite one; the shortest text that reads back as it.
  template <class Number>
  void number(Number value) {
    char digits[32];
    raw({digits, std::to_chars(digits, digits + sizeof digits, value).ptr});
  }

 private:
  void begin() {
    if (!is_first_ && !is_named_) out_.append(comma_);
    is_first_ = is_named_ = false;
  }
  void open(std::string_view bracket) {
    raw(bracket);
    is_first_ = true;
  }
  void close(std::string_view bracket) {
    out_.append(bracket);
    is_first_ = false;
  }

  Out& out_;
  const std::string_view comma_, colon_;
  bool is_first_ = true, is_named_ = false;
};

}  // namespace sluice::base
