// What the writer of JSON puts around values; how it writes texts is in protocol/http's tests.
#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace sluice::base {
namespace {

template <class Out>
void write_some(Out& out, JsonForm form) {
  JsonWriter<Out> to(out, form);
  to.open_object();
  to.name("a\"");
  to.open_list();
  to.number(-1);
  to.number(std::numeric_limits<uint64_t>::max());
  to.number(0.5);
  to.open_object();
  to.close_object();
  to.open_list();
  to.close_list();
  to.close_list();
  to.name("b");
  to.text("\xFF\n");
  to.name("c");
  to.open_object();
  to.name("d");
  to.raw("null");
  to.close_object();
  to.name("e");
  to.boolean(true);
  to.close_object();
}

TEST(JsonWriter, PutsCommasBetweenValues) {
  std::string text;
  write_some(text, JsonForm::compact);
  EXPECT_EQ(text,
            "{\"a\\\"\":[-1,18446744073709551615,0.5,{},[]],\"b\":\"\xEF\xBF\xBD\\n\","
            "\"c\":{\"d\":null},\"e\":true}");
  Buffer same;
  write_some(same, JsonForm::compact);
  EXPECT_EQ(same.view(), text);
}

TEST(JsonWriter, PutsSpacesBehindCommasAndColons) {
  std::string text;
  write_some(text, JsonForm::spaced);
  EXPECT_EQ(text,
            "{\"a\\\"\": [-1, 18446744073709551615, 0.5, {}, []], \"b\": \"\xEF\xBF\xBD\\n\", "
            "\"c\": {\"d\": null}, \"e\": true}");
}

}  // namespace
}  // namespace sluice::base
