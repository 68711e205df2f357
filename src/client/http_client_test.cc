// The terminal's HTTP client (client/http_client.h), against a made-up server.
#include "client/http_client.h"

#include <gtest/gtest.h>

#include <utility>

#include "testing/fake_http.h"

namespace sluice::calls {
namespace {

using std::chrono::milliseconds;

HttpClient client_of(uint16_t port, milliseconds timeout = milliseconds(20'000),
                     size_t bytes_max = 1000, const std::string& token = {}) {
  HttpClient::Options options;
  options.host = "127.0.0.1";
  options.port = port;
  options.token = token;
  options.timeout = timeout;
  options.answer_bytes_max = bytes_max;
  return HttpClient(std::move(options));
}

HttpResult answered(const std::string& bytes, size_t bytes_max = 1000) {
  FakeHttp server([&](const FakeHttp::Request&) { return bytes; });
  return client_of(server.port(), milliseconds(20'000), bytes_max).ask("GET", "/");
}

TEST(HttpClient, SendsARequestAndReadsTheAnswer) {
  FakeHttp server([](const FakeHttp::Request&) {
    return FakeHttp::response(201, "{\"a\":1}", "application/json; charset=utf-8");
  });
  auto client = client_of(server.port(), milliseconds(20'000), 1000, "0123456789-token");
  for (int i = 0; i < 2; ++i) {
    const auto result = client.ask("POST", "/v1/x?y=z", "{}");
    ASSERT_TRUE(result.answer) << result.error;
    EXPECT_EQ(result.answer->status, 201u);
    EXPECT_EQ(result.answer->content_type, "application/json; charset=utf-8");
    EXPECT_EQ(result.answer->body, "{\"a\":1}");
  }
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  for (const auto& request : requests) {
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/v1/x?y=z");
    EXPECT_EQ(request.body, "{}");
    EXPECT_NE(request.head.find("\r\nHost: " + server.address() + "\r\n"), std::string::npos);
    EXPECT_NE(request.head.find("\r\nAuthorization: Bearer 0123456789-token\r\n"),
              std::string::npos);
    EXPECT_NE(request.head.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
  }
}

TEST(HttpClient, SendsNoTokenByDefaultAndAnnouncesAnEmptyBody) {
  FakeHttp server([](const FakeHttp::Request&) { return FakeHttp::response(200, ""); });
  auto client = client_of(server.port());
  EXPECT_TRUE(client.ask("POST", "/").answer);
  EXPECT_TRUE(client.ask("GET", "/").answer);
  const auto requests = server.requests();
  EXPECT_NE(requests[0].head.find("\r\nContent-Length: 0\r\n"), std::string::npos);
  EXPECT_EQ(requests[1].head.find("Content-Length"), std::string::npos);
  for (const auto& request : requests)
    EXPECT_EQ(request.head.find("Authorization"), std::string::npos);
}

TEST(HttpClient, ReadsAnAnswerInChunks) {
  const auto result = answered(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
      "Transfer-Encoding: chunked\r\n\r\n4\r\nwhat\r\n4\r\never\r\n0\r\n\r\n");
  ASSERT_TRUE(result.answer) << result.error;
  EXPECT_EQ(result.answer->body, "whatever");
}

TEST(HttpClient, ReportsWhatIsWrongWithAnAnswer) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "closed the connection without a reply"},
      {"HTTP/1.1 200", "closed the connection without a reply"},
      {"OK true 1 0\n\r\n\r\n", "not an HTTP answer"},
      {head + "Content-Length: 5\r\n\r\nfour", "ended in the middle of the answer"},
      {head + "Content-Length: 1001\r\n\r\n", "longer than 1000 bytes"},
      {head + "\r\n" + std::string(1001, 'x'), "does not say how long it is"},
      {head + "Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n", "not an HTTP answer"},
      {head + "X: " + std::string(70'000, 'x'), "head of the answer is too long"},
      {head + "X: " + std::string(65'600, 'x') + "\r\n\r\n", "head of the answer is too long"},
  };
  for (const auto& [bytes, wrong] : cases) {
    const auto result = answered(bytes);
    EXPECT_FALSE(result.answer) << bytes.substr(0, 100);
    EXPECT_NE(result.error.find(wrong), std::string::npos) << result.error << "\n of " << wrong;
  }
  EXPECT_TRUE(answered(head + "Content-Length: 1000\r\n\r\n" + std::string(1000, 'x')).answer);
}

TEST(HttpClient, GivesUpAtItsDeadline) {
  FakeHttp silent([](const FakeHttp::Request&) { return FakeHttp::silence; });
  const auto begin = std::chrono::steady_clock::now();
  const auto result = client_of(silent.port(), milliseconds(50)).ask("GET", "/");
  EXPECT_EQ(result.error, "no reply in time");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(50));
}

TEST(HttpClient, ReportsARefusedConnection) {
  uint16_t port = 0;
  {
    FakeHttp server([](const FakeHttp::Request&) { return std::string(); });
    port = server.port();
  }
  const auto result = client_of(port).ask("GET", "/");
  EXPECT_EQ(result.error,
            "cannot connect to 127.0.0.1 port " + std::to_string(port) + ": Connection refused");
}

}  // namespace
}  // namespace sluice::calls
