// Any bytes must be read as the naive reader of take_body_model.h reads them, or be refused with a
// sentence and a pointer, also by a reader that has read another body. A body that was read is
// written by the naive writer, in a form that the bytes choose, and must read as the same; no
// proper prefix of it may be a body. The first byte says what the path allows, or asks of a hold.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "protocol/http/take_body.h"
#include "protocol/http/take_body_model.h"
#include "request/hold.h"

namespace {

using namespace sluice::http;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

// What the paths allow (exchange.cc), and a few other combinations.
take_model::Form form_by(uint8_t byte) {
  if ((byte & 96) == 96)
    return take_model::form_of(static_cast<sluice::request::HoldAsk>((byte & 15) % 5));
  BodyForm wanted;
  wanted.has_mode = (byte & 1) != 0;
  wanted.has_all = (byte & 2) != 0;
  wanted.has_timeout = (byte & 4) != 0;
  wanted.has_n = (byte & 8) == 0;
  wanted.has_detail = (byte & 16) == 0;
  wanted.has_id = (byte & 128) != 0;
  if ((byte & 32) != 0) wanted.takes_max = 0;
  if ((byte & 64) != 0) {
    wanted.takes_max = 3;
    wanted.only_takes = true;
  }
  return {wanted, {}};
}

void check_problem(const TakeBody& body) {
  require(!body.problem.empty() && body.problem.size() <= 600, "a sentence: " + body.problem);
  require(sluice::base::utf8::is_valid(body.problem), "a sentence that is not UTF-8");
  require(body.problem.find('\n') == std::string::npos, "a sentence of two lines");
  require(sluice::base::utf8::is_valid(body.pointer), "a pointer that is not UTF-8");
  require(body.pointer.size() <= 200, "a pointer that is too long");
  require(body.pointer.empty() || body.pointer[0] == '/', "no pointer: " + body.pointer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string json(reinterpret_cast<const char*>(data) + 1, size - 1);
  const take_model::Form form = form_by(data[0]);

  TakeBodyReader reader, used_reader;
  TakeBody body, used;
  const bool sound = take_model::read_by(reader, json, form, body);
  const auto expected = take_model::read(json, form);
  require(sound == expected.has_value(),
          sound ? "read, and the model refuses it" : "the model reads it: " + body.problem);
  BodyForm all{};
  all.has_mode = all.has_timeout = all.has_all = true;
  require(used_reader.read(R"({"takes": [{"key": "\u006b", "limits": [{"quota": 5, "window": 1,
                               "name": "x"}], "all": true}, {"entries": {"\u0061": 1}, "n": 7}],
                               "mode": "each", "detail": true, "timeout": 2.5})",
                           all, used),
          used.problem);
  require(used_reader.read_hold(R"({"id": "hold-0000-0000-1", "n": [1, 2]})",
                                sluice::request::HoldAsk::commit, used),
          used.problem);
  require(take_model::read_by(used_reader, json, form, used) == sound,
          "another fate when used again");
  require(used.problem == body.problem && used.pointer == body.pointer, "another problem then");
  if (!sound) {
    check_problem(body);
    return 0;
  }
  require(body.problem.empty() && body.pointer.empty(), "a problem: " + body.problem);
  require(take_model::asked_of(body, form) == *expected, "another body than the model's");
  require(take_model::asked_of(used, form) == *expected, "another body when used again");

  uint32_t seed = data[0];
  for (size_t i = 0; i < size; ++i) seed = seed * 31 + data[i];
  const auto choose = [&](size_t n) {
    seed = seed * 1'664'525 + 1'013'904'223;
    return (seed >> 16) % n;
  };
  const std::string again = take_model::Writer(choose).write(*expected, form);
  require(take_model::read_by(reader, again, form, body),
          again + "\nwritten again: " + body.problem);
  require(take_model::asked_of(body, form) == *expected,
          again + "\nanother body when written again");
  const size_t whole = again.rfind('}');
  for (size_t cut = whole; cut > 0; cut -= cut < 256 ? 1 : cut / 64) {
    require(!take_model::read_by(reader, std::string_view(again).substr(0, cut), form, body),
            "a beginning of it");
    check_problem(body);
  }
  return 0;
}
