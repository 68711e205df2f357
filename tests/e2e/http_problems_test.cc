// Every status with which the real program refuses a request of the HTTP protocol, over HTTP/1.1
// and HTTP/2. Other files test waiting and users.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/http_described.h"

namespace sluice::tests::http_e2e {
namespace {

struct HttpRefusal {
  Asked asked;
  int status;
  const char* problem;
};

void expect_refused(const Door& door, const HttpRefusal& refusal) {
  for (const HttpVersion version : http_versions) {
    SCOPED_TRACE(name_of(version));
    const HttpAnswer answer = ask(version, door.port(), refusal.asked);
    EXPECT_EQ(answer.status, refusal.status) << answer.body;
    if (refusal.asked.method != "HEAD") {
      EXPECT_EQ(problem_of(answer), refusal.problem) << answer.body;
    }
  }
}

const Json one_jar = about({{"jar", "j"}});

Asked with_host(Asked asked, const std::string& host) {
  asked.host = host;
  return asked;
}
Asked with_header(Asked asked, const std::string& name, const std::string& value) {
  asked.headers.emplace_back(name, value);
  return asked;
}
Asked with_type(const std::string& type) {
  return {.method = "POST",
          .target = "/v1/take",
          .body = one_jar.dump(),
          .headers = {{"Content-Type", type}}};
}

TEST(HttpProblems, ABodyThatIsNotWhatThePathTakes) {
  const Door door;
  struct Case {
    const char* path;
    const char* body;
    const char* pointer;
  };
  const Case cases[] = {
      {"take", "", ""},
      {"take", "[]", ""},
      {"take", "{", ""},
      {"take", "{}", ""},
      {"take", R"({"entries": {"jar": "j"}} x)", ""},
      {"take", R"({"entries": {"jar": "j"}, "quanity": 3})", "/quanity"},
      {"take", R"({"entries": {"jar": "j"}, "now": 3})", "/now"},
      {"take", R"({"entries": {"jar": null}})", "/entries/jar"},
      {"take", R"({"entries": {"jar": ["j"]}})", "/entries/jar"},
      {"take", R"({"entries": {"a/b~": {}}})", "/entries/a~1b~0"},
      {"take", R"({"entries": {}})", "/entries"},
      {"take", R"({"entries": {"jar": "j"}, "n": -1})", "/n"},
      {"take", R"({"entries": {"jar": "j"}, "n": 1.5})", "/n"},
      {"take", R"({"entries": {"jar": "j"}, "n": "1"})", "/n"},
      {"take", R"({"entries": {"jar": "j"}, "n": 9007199254740992})", "/n"},
      {"take", R"({"entries": {"jar": "j"}, "mode": "some"})", "/mode"},
      {"take", R"({"entries": {"jar": "j"}, "timeout": 1})", "/timeout"},
      {"take", R"({"entries": {"jar": "j"}, "all": true})", "/all"},
      {"take", R"({"entries": {"jar": "j"}, "key": "k"})", "/key"},
      {"take", R"({"key": "k"})", ""},
      {"take", R"({"key": "k", "limits": []})", "/limits"},
      {"take", R"({"key": "k", "limits": [{"window": "1m"}]})", "/limits/0"},
      {"take", R"({"key": "k", "limits": [{"quota": 0, "window": "1m"}]})", "/limits/0/quota"},
      {"take", R"({"key": "k", "limits": [{"quota": 1, "window": "1"}]})", "/limits/0/window"},
      {"take", R"({"key": "k", "limits": [{"quota": 1, "window": 1, "algorithm": "leaky"}]})",
       "/limits/0/algorithm"},
      {"take", R"({"takes": []})", "/takes"},
      {"take", R"({"takes": [{"entries": {"jar": "j"}}, {"entries": {"jar": 1}, "n": -1}]})",
       "/takes/1/n"},
      {"put", R"({"entries": {"jar": "j"}, "n": 0})", "/n"},
      {"put", R"({"entries": {"jar": "j"}, "n": 1, "all": true})", "/all"},
      {"reset", R"({"entries": {"jar": "j"}, "n": 1})", "/n"},
      {"wait", R"({"takes": [{"entries": {"jar": "j"}}]})", "/takes"},
      {"wait", R"({"entries": {"jar": "j"}, "timeout": -1})", "/timeout"},
      {"wait", R"({"entries": {"jar": "j"}, "timeout": 60.001})", "/timeout"},
      {"batch", R"({"entries": {"jar": "j"}})", "/entries"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.body);
    for (const HttpVersion version : http_versions) {
      const std::string path = std::string("/v1/") + one.path;
      const HttpAnswer answer = ask(version, door.port(), post_text(path, one.body));
      EXPECT_EQ(answer.status, 400) << answer.body;
      EXPECT_EQ(problem_of(answer), "bad-request") << answer.body;
      EXPECT_EQ(json_body(answer).value("pointer", "(none)"), one.pointer) << answer.body;
    }
  }
}

TEST(HttpProblems, ListsOfABodyHaveBounds) {
  const Door door;
  std::map<std::string, std::string> entries{{"jar", "j"}};
  for (int i = 1; i < 64; ++i) entries["k" + std::to_string(i)] = "v";
  const auto status = [&](const std::string& path, const Json& body) {
    const HttpAnswer answer = ask(HttpVersion::http1, door.port(), post(path, body));
    if (answer.status != 200) {
      EXPECT_EQ(problem_of(answer), "bad-request") << answer.body;
    }
    return answer.status;
  };
  EXPECT_EQ(status("/v1/peek", about(entries)), 200);
  entries["k64"] = "v";
  EXPECT_EQ(status("/v1/peek", about(entries)), 400);
  std::vector<Json> many(64, one_jar), limits;
  EXPECT_EQ(status("/v1/peek", takes(many)), 200);
  many.push_back(one_jar);
  EXPECT_EQ(status("/v1/peek", takes(many)), 400);
  many.resize(1001, one_jar);
  EXPECT_EQ(status("/v1/batch", takes(many)), 400);
  for (int i = 1; i <= 8; ++i)
    limits.push_back({{"quota", i}, {"window", i}, {"algorithm", "fixed_window"}});
  EXPECT_EQ(status("/v1/peek", about_key("k", limits)), 200);
  limits.push_back({{"quota", 9}, {"window", 9}});
  EXPECT_EQ(status("/v1/peek", about_key("k", limits)), 400);
}

TEST(HttpProblems, PathsAndMethods) {
  const Door door;
  const HttpRefusal refusals[] = {
      {get("/"), 404, "not-found"},
      {get("/v1"), 404, "not-found"},
      {post("/v1/take/", one_jar), 404, "not-found"},
      {post("/v1/nosuch", one_jar), 404, "not-found"},
      {post("/throttle", one_jar), 404, "not-found"},
      {get("/health"), 404, "not-found"},
      {get("/v1/take"), 405, "method-not-allowed"},
      {{.method = "HEAD", .target = "/v1/take"}, 405, ""},
      {{.method = "PUT", .target = "/v1/put"}, 405, "method-not-allowed"},
      {{.method = "DELETE", .target = "/v1/health"}, 405, "method-not-allowed"},
      {post("/v1/health", Json::object()), 405, "method-not-allowed"},
      {{.method = "post", .target = "/v1/take"}, 405, "method-not-allowed"},
      {post("/v1/take?n=1", one_jar), 400, "bad-request"},
      {post("/v1/take?status=429", one_jar), 400, "bad-request"},
  };
  for (const HttpRefusal& refusal : refusals) expect_refused(door, refusal);
  for (const HttpVersion version : http_versions) {
    const auto allow = [&](const std::string& method, const std::string& path) {
      return header_of(ask(version, door.port(), {.method = method, .target = path}), "allow");
    };
    EXPECT_EQ(allow("GET", "/v1/take"), "POST, OPTIONS");
    EXPECT_EQ(allow("PATCH", "/v1/health"), "GET, HEAD, OPTIONS");
    EXPECT_EQ(allow("OPTIONS", "/v1/take"), "POST, OPTIONS");
    EXPECT_EQ(allow("OPTIONS", "/v1/health"), "GET, HEAD, OPTIONS");
    const HttpAnswer options =
        ask(version, door.port(), {.method = "OPTIONS", .target = "/v1/take"});
    EXPECT_EQ(options.status, 204);
    for (const auto& [name, value] : options.headers)
      EXPECT_FALSE(name.starts_with("access-control-")) << name << ": " << value;
  }
}

TEST(HttpProblems, AnAcquireOfWhatHasNoPlacesIs400) {
  const Door door;
  expect_refused(door, {post("/v1/acquire", one_jar), 400, "no-places"});
}

TEST(HttpProblems, Negotiation) {
  const Door door;
  const Asked take = post("/v1/peek", one_jar);
  for (const char* accept : {"text/html", "image/*", "application/xml;q=1", "application/json;q=0"})
    expect_refused(door, {with_header(take, "Accept", accept), 406, "not-acceptable"});
  for (const char* accept : {"*/*", "application/*", "application/json", "application/problem+json",
                             "text/html, application/json;q=0.1"})
    EXPECT_EQ(ask(HttpVersion::http1, door.port(), with_header(take, "Accept", accept)).status, 200)
        << accept;

  Asked untyped = with_type("");
  untyped.headers.clear();
  expect_refused(door, {untyped, 415, "unsupported-media-type"});
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "application/jsonx",
                           "application/json; charset=latin1"})
    expect_refused(door, {with_type(type), 415, "unsupported-media-type"});
  for (const char* type : {"application/json;charset=UTF-8", "Application/JSON; charset=\"utf-8\""})
    EXPECT_EQ(ask(HttpVersion::http2, door.port(), with_type(type)).status, 200) << type;

  for (const char* name : {"Content-Type", "Authorization"}) {
    const Asked twice = with_header(with_header(take, name, "x"), name, "x");
    expect_refused(door, {twice, 400, "bad-request"});
  }
  expect_refused(door, {with_header(take, "Idempotency-Key", "\"k\""), 400, "bad-request"});
}

// Over HTTP/2 the same bound applies to all that a connection holds.
TEST(HttpProblems, ABodyAboveAMebibyte) {
  const Door door;
  Asked asked = post_text("/v1/peek", one_jar.dump());
  asked.body.resize(1'000'000, ' ');
  for (const HttpVersion version : http_versions)
    EXPECT_EQ(ask(version, door.port(), asked).status, 200) << name_of(version);
  asked.body.resize(1 << 20, ' ');
  EXPECT_EQ(ask(HttpVersion::http1, door.port(), asked).status, 200);
  asked.body += ' ';
  expect_refused(door, {asked, 413, "content-too-large"});
}

// A web page in a browser on this machine must not send requests, by whatever hostname it reaches
// the port.
TEST(HttpProblems, WebPages) {
  const Asked take = post("/v1/peek", one_jar),
              options = {.method = "OPTIONS", .target = "/v1/take"};
  {
    const Door door;
    for (const char* host : {"evil.example", "localhost.evil.example", "evil.example:8390"}) {
      expect_refused(door, {with_host(take, host), 421, "misdirected-request"});
      expect_refused(door, {with_host(get("/nosuch"), host), 421, "misdirected-request"});
    }
    for (const char* host :
         {"localhost:8390", "LOCALHOST", "127.0.0.1", "192.0.2.7:80", "[::1]:80"})
      for (const HttpVersion version : http_versions)
        EXPECT_EQ(ask(version, door.port(), with_host(take, host)).status, 200) << host;
    for (const Asked& asked : {take, options, get("/v1/health")}) {
      expect_refused(door,
                     {with_header(asked, "Origin", "https://evil.example"), 403, "forbidden"});
      expect_refused(door, {with_header(asked, "Origin", "null"), 403, "forbidden"});
      for (const char* site : {"cross-site", "same-site"})
        expect_refused(door, {with_header(asked, "Sec-Fetch-Site", site), 403, "forbidden"});
    }
    for (const char* site : {"none", "same-origin"})
      EXPECT_EQ(
          ask(HttpVersion::http1, door.port(), with_header(take, "Sec-Fetch-Site", site)).status,
          200);
  }
  const Door door("{ hosts: [Limits.example.com], origins: [\"https://page.example\"] }");
  for (const HttpVersion version : http_versions) {
    EXPECT_EQ(ask(version, door.port(), with_host(take, "limits.EXAMPLE.com:80")).status, 200);
    const Asked from_page = with_header(take, "Origin", "https://page.example");
    EXPECT_EQ(
        ask(version, door.port(), with_header(from_page, "Sec-Fetch-Site", "cross-site")).status,
        200);
    const auto read = ask(version, door.port(), from_page);
    EXPECT_EQ(header_of(read, "access-control-allow-origin"), "https://page.example");
    EXPECT_EQ(header_of(read, "vary"), "Origin");
    const auto preflight =
        ask(version, door.port(), with_header(options, "Origin", "https://page.example"));
    EXPECT_EQ(preflight.status, 204);
    EXPECT_EQ(header_of(preflight, "access-control-allow-methods"), "POST, OPTIONS");
    EXPECT_EQ(header_of(preflight, "access-control-allow-headers"), "Authorization, Content-Type");
    EXPECT_EQ(header_of(ask(version, door.port(), take), "access-control-allow-origin"), "(none)");
  }
  expect_refused(door, {with_host(take, "example.com"), 421, "misdirected-request"});
  expect_refused(door, {with_header(take, "Origin", "http://page.example"), 403, "forbidden"});
}

// The fields are equal, so that over HTTP/2 they fit into one frame.
Asked with_large_head(size_t fields) {
  Asked asked = get("/v1/health");
  asked.headers.assign(fields, {"X-Large", std::string(2'900, 'x')});
  return asked;
}

TEST(HttpProblems, AHeadThatIsTooLarge) {
  const Door door;
  Http1 http1(door.port());
  http1.send(with_large_head(24));
  const HttpAnswer answer = http1.read();
  EXPECT_EQ(answer.status, 431);
  EXPECT_EQ(problem_of(answer), "malformed-request");
  EXPECT_EQ(http1.socket().read_to_end(), "");
}

// The answer has no body. The connection ends at a head that is four times as large.
TEST(HttpProblems, AHeadThatIsTooLargeOverHttp2) {
  const Door door;
  Http2 http2(door.port());
  EXPECT_EQ(ask_on(http2, with_large_head(20)).status, 200);
  for (const size_t fields : {size_t{24}, size_t{85}}) {
    const HttpAnswer answer = http2.ask(with_large_head(fields));
    EXPECT_EQ(answer.status, 431) << fields;
    EXPECT_EQ(answer.body, "") << fields;
  }
  EXPECT_EQ(ask_on(http2, get("/v1/health")).status, 200);
  const uint32_t last = http2.send(with_large_head(95));
  EXPECT_EQ(http2.read(last).status, 0);
  http2.socket().read_to_end();
  EXPECT_TRUE(http2.socket().ended());
}

// A server without its Redis: no process listens on that port.
class HttpWithoutStore : public testing::Test {
 protected:
  static std::string away() {
    return "store: { redis: { nodes: [\"127.0.0.1:1\"] } }\n" + std::string(usual_rules) +
           "  - { name: lenient, match: { lenient: \"*\" }, on_store_error: allow, limit: { quota: "
           "7, window: 1h } }\n"
           "  - { name: strict, match: { strict: \"*\" }, on_store_error: deny, limit: { quota: 7, "
           "window: 1h } }\n";
  }
};

TEST_F(HttpWithoutStore, AnswersUndecidedRequestsWith503) {
  const Door door("{ unmatched: allow }", away());
  const Json own = about_key("k", Json::array({{{"quota", 3}, {"window", "1h"}}}));
  for (const char* path :
       {"/v1/take", "/v1/charge", "/v1/peek", "/v1/put", "/v1/reset", "/v1/wait"})
    for (const Json& body : {one_jar, own})
      expect_refused(door, {post(path, body), 503, "temporary-reduced-capacity"});
  expect_refused(door, {get("/v1/health"), 503, "temporary-reduced-capacity"});
  expect_refused(door, {{.method = "HEAD", .target = "/v1/health"}, 503, ""});
  for (const HttpVersion version : http_versions) {
    const auto asked = [&](const Asked& one) { return ask(version, door.port(), one); };
    EXPECT_EQ(header_of(asked(post("/v1/take", own)), "retry-after"), "1");
    const HttpAnswer lenient = asked(post("/v1/take", about({{"lenient", "x"}})));
    EXPECT_EQ(lenient.status, 200);
    EXPECT_EQ(json_body(lenient).at("remaining"), 6) << "as a fresh counter";
    const HttpAnswer strict = asked(post("/v1/take", about({{"strict", "x"}})));
    EXPECT_EQ(strict.status, 429);
    EXPECT_EQ(header_of(strict, "retry-after"), "1");
    // A charge that no store counted would be lost, whatever the rule says.
    for (const char* how : {"lenient", "strict"}) {
      const HttpAnswer charge = asked(post("/v1/charge", about({{how, "x"}})));
      EXPECT_EQ(charge.status, 503) << how << charge.body;
    }
    const HttpAnswer batch = asked(post("/v1/batch", takes({one_jar, about({{"open", "x"}})})));
    EXPECT_EQ(batch.status, 200);
    const Json told = json_body(batch).at("takes");
    EXPECT_EQ(told[0].at("error").at("status"), 503) << told;
    EXPECT_EQ(told[1].at("rule"), "open") << told;
    const HttpAnswer none = asked(post("/v1/take", takes({one_jar, own}, {{"mode", "each"}})));
    EXPECT_EQ(none.status, 503);
    EXPECT_EQ(json_body(none).at("takes")[1].at("error").at("status"), 503) << none.body;
  }
}

TEST_F(HttpWithoutStore, LimitsOfRequestsAreAnsweredAsConfigured) {
  const Json own = about_key("k", Json::array({{{"quota", 3}, {"window", "1h"}}}));
  {
    const Door door("{ on_store_error: allow }", away());
    for (const HttpVersion version : http_versions) {
      const HttpAnswer answer = ask(version, door.port(), post("/v1/take", own));
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(json_body(answer).at("remaining"), 2);
      EXPECT_EQ(ask(version, door.port(), post("/v1/put", own)).status, 503);
    }
  }
  const Door door("{ on_store_error: deny }", away());
  for (const HttpVersion version : http_versions) {
    const HttpAnswer answer = ask(version, door.port(), post("/v1/take", own));
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(header_of(answer, "retry-after"), "1");
  }
}

// The name of a problem's type; "" if the text is not a type.
std::string name_of_type(const std::string& text) {
  for (const std::string before :
       {"urn:sluice:problem:", "https://iana.org/assignments/http-problem-types#"})
    if (text.starts_with(before)) return text.substr(before.size());
  return "";
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The types that an answer may have, by the enumerations of the schemas.
void collect_described(const Json& json, std::set<std::string>& names) {
  if (json.is_object() && json.contains("enum"))
    for (const Json& value : json.at("enum"))
      if (value.is_string()) names.insert(name_of_type(value.get<std::string>()));
  if (json.is_structured())
    for (const Json& below : json) collect_described(below, names);
  names.erase("");
}

// The second column of the table in `## Problems`.
std::set<std::string> in_the_manual() {
  std::set<std::string> names;
  std::istringstream manual(text_of(source_path("docs/http.md")));
  const std::regex row(R"(\| [0-9, ]+ \| `([a-z-]+)` \| .*)");
  bool here = false;
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("## ")) here = line == "## Problems";
    if (std::smatch match; here && std::regex_match(line, match, row)) names.insert(match[1]);
  }
  return names;
}

// Every string of the protocol's sources that is a type.
std::set<std::string> in_the_program() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(source_path("src/protocol/http"))) {
    const std::string name = file.path().filename();
    if (name.ends_with("_test.cc") || name.ends_with("_test.h") || name.ends_with("_fuzz.cc"))
      continue;
    const std::string text = text_of(file.path());
    const std::regex quoted("\"([^\"\n]*)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), quoted), end; at != end; ++at)
      names.insert(name_of_type((*at)[1]));
  }
  names.erase("");
  return names;
}

TEST(HttpProblems, AreTheSameInProgramManualAndDescription) {
  std::set<std::string> described;
  collect_described(description().at("components").at("schemas"), described);
  const std::set<std::string> program = in_the_program();
  EXPECT_GT(program.size(), 15u);
  EXPECT_EQ(program, in_the_manual());
  EXPECT_EQ(program, described);
}

}  // namespace
}  // namespace sluice::tests::http_e2e
