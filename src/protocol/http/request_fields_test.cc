// What a request's header fields are read as: the form of answer that the client accepts, and
// fields that must not be repeated.
#include "protocol/http/request_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::http::request_fields_test {
namespace {

TEST(RequestFields, AreFoundWhateverTheCaseOfTheirNames) {
  const std::vector<wire::HttpField> fields = {
      {"X", "1"},      {"aCCept", "a"},         {"CONTENT-TYPE", "t"},    {"authorization", "u"},
      {"Origin", "o"}, {"Sec-Fetch-Site", "s"}, {"idempotency-KEY", "k"}, {"contentxtype", "y"}};
  const RequestFields read = read_request_fields(fields);
  EXPECT_EQ(read.accept, "a");
  EXPECT_EQ(read.content_type, "t");
  EXPECT_EQ(read.authorization, "u");
  EXPECT_EQ(read.origin, "o");
  EXPECT_EQ(read.sec_fetch_site, "s");
  EXPECT_TRUE(read.has_origin);
  EXPECT_TRUE(read.has_idempotency_key);
  EXPECT_EQ(read.twice, "");
}

TEST(RequestFields, MayBeMissingOrEmpty) {
  const RequestFields none = read_request_fields({});
  EXPECT_FALSE(none.has_origin);
  EXPECT_FALSE(none.has_idempotency_key);
  const std::vector<wire::HttpField> fields = {{"origin", ""}, {"idempotency-key", ""}};
  const RequestFields empty = read_request_fields(fields);
  EXPECT_TRUE(empty.has_origin);
  EXPECT_TRUE(empty.has_idempotency_key);
  EXPECT_EQ(empty.twice, "");
}

TEST(RequestFields, ReportRepeatedFieldsExceptAccept) {
  for (const std::string name : {"Content-Type", "Authorization", "Origin", "Sec-Fetch-Site"}) {
    const std::vector<wire::HttpField> twice = {{name, "same"}, {"X", ""}, {name, "same"}};
    EXPECT_EQ(read_request_fields(twice).twice, name);
    const std::vector<wire::HttpField> empty = {{name, ""}, {name, ""}};
    EXPECT_EQ(read_request_fields(empty).twice, name);
  }
  const std::vector<wire::HttpField> accepts = {{"Accept", "text/html"}, {"Accept", "*/*"}};
  EXPECT_EQ(read_request_fields(accepts).twice, "");
  EXPECT_EQ(read_request_fields(accepts).accept, "*/*");
}

TEST(AnswerForm, IsWhatTheClientTakes) {
  for (const auto& [accept, form] : std::vector<std::pair<std::string, AnswerForm>>{
           {"", AnswerForm::problem},
           {"*/*", AnswerForm::problem},
           {"application/*", AnswerForm::problem},
           {"application/json", AnswerForm::json},
           {"APPLICATION/JSON; q=0.5", AnswerForm::json},
           {"application/json, application/problem+json", AnswerForm::problem},
           {"application/json,application/problem+json;q=0", AnswerForm::json},
           {"application/json;q=0.1, */*;q=0.1", AnswerForm::problem},
           {"application/problem+json", AnswerForm::problem},
           {"text/html", AnswerForm::none},
           {"text/html, */*;q=0.1", AnswerForm::problem},
           {"text/html,application/json;q=0", AnswerForm::none},
           {"*/*;q=0", AnswerForm::none},
           {"*/*;q=0.0", AnswerForm::none},
           {"*/*;q=0.001", AnswerForm::problem},
           // The most specific range counts, whatever the order.
           {"application/json, */*;q=0", AnswerForm::json},
           {"*/*;q=0, application/*", AnswerForm::problem},
           {"application/*;q=0, application/json", AnswerForm::json},
           {"image/png", AnswerForm::none},
           {"nonsense", AnswerForm::none},
           {",,,", AnswerForm::none},
           {"application/json ; charset=utf-8 ; Q=0", AnswerForm::none},
           // An ill-formed weight is ignored.
           {"application/json;q=x", AnswerForm::json},
           {"application/json;q=2", AnswerForm::json},
           {"application/json;q=0x", AnswerForm::json}})
    EXPECT_EQ(answer_form(accept), form) << accept;
  // Only the beginning of a list that is too long is read.
  EXPECT_EQ(answer_form("application/json," + std::string(5'000, ' ') + "*/*"), AnswerForm::json);
}

TEST(AnswerForm, MayBeTextOfARefusal) {
  for (const auto& [accept, text] : std::vector<std::pair<std::string, bool>>{
           {"", false},
           {"*/*", false},
           {"text/html", true},
           {"text/plain", true},
           {"text/*;q=0.2", true},
           {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true},
           {"application/json, text/html", false},
           {"application/json;q=0.5, text/html;q=0.6", true},
           {"application/problem+json;q=0.7, text/html;q=0.6", false},
           {"text/html;q=0", false}})
    EXPECT_EQ(prefers_text(accept), text) << accept;
}

TEST(JsonType, IsApplicationJsonInUtf8) {
  for (const auto& [type, fits] :
       std::vector<std::pair<std::string, bool>>{{"application/json", true},
                                                 {"Application/JSON", true},
                                                 {"application/json;charset=utf-8", true},
                                                 {"application/json ; Charset=\"UTF-8\"", true},
                                                 {"application/json; charset=utf-8; x=y", true},
                                                 {"application/json; x", true},
                                                 {"application/json;", true},
                                                 {"application/json; charset=latin1", false},
                                                 {"application/json; charset=\"utf-16\"", false},
                                                 {"application/json; charset", false},
                                                 {"application/json; charset=", false},
                                                 {"application/json; charset=\"", false},
                                                 {"", false},
                                                 {"text/json", false},
                                                 {"application/problem+json", false},
                                                 {"application/jsonp", false},
                                                 {"application/x-www-form-urlencoded", false},
                                                 {"application/json, application/json", false}})
    EXPECT_EQ(is_json_type(type), fits) << type;
}

}  // namespace
}  // namespace sluice::http::request_fields_test
