// What a stop answers to requests that wait for units, over RESP and limitd's protocol, whatever
// keeps the counters. Starts the real server; its failures fail the test.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"

namespace sluice::tests {

class StoppedWaits {
 public:
  // `store`: the line of sluice.yaml that says where the counters are; `folder`: it may lie there.
  StoppedWaits(const Folder& folder, const std::string& store)
      : process_({.arguments = {"serve", "--config", config(folder, store)},
                  .environment = {{"SLUICE_LOG_LEVEL", "warn"}}}) {}

  void expect_answers() {
    TcpClient resp = TcpClient::connect(resp_).value();
    LimitdClient limitd(TcpClient::connect(limitd_).value());
    // The second wait has not been received when the server stops: the first holds it back.
    const std::string wait = "SLUICE.WAIT 0 KEY k LIMIT 1 1h\r\n";
    ASSERT_TRUE(
        resp.send("SLUICE.TAKE KEY k LIMIT 1 1h\r\n" + wait + "PING\r\n" + wait + "ECHO end\r\n"));
    ASSERT_TRUE(limitd.take("fixed", "k", 3).conformant);
    const std::string first = limitd.send({LimitdMethod::wait, "fixed", "k"}),
                      second = limitd.send({LimitdMethod::wait, "fixed", "k", 2});
    ASSERT_TRUE(comes([&] { return sample(admin_, "sluice_waiting_requests") == "3"; }));
    const std::string other = limitd.send({LimitdMethod::take, "fixed", "other"});
    ASSERT_TRUE(limitd.await(other));
    process_.signal(SIGTERM);
    const std::string stopped = "-TRYAGAIN the server stops; nothing was taken\r\n";
    const std::string replies = resp.read_to_end();
    EXPECT_EQ(replies.substr(replies.find('-')), stopped + "+PONG\r\n" + stopped + "$3\r\nend\r\n");
    EXPECT_FALSE(resp.was_reset());
    for (const std::string& id : {first, second}) {
      const auto reply = limitd.await(id);
      ASSERT_TRUE(reply) << id;
      EXPECT_EQ(reply->kind, "take");
      EXPECT_FALSE(reply->conformant || reply->delayed);
    }
    EXPECT_EQ(limitd.tcp().read_to_end(), "");
    EXPECT_FALSE(limitd.tcp().was_reset());
    EXPECT_EQ(process_.wait(), 0);
  }

 private:
  static std::string config(const Folder& folder, const std::string& store) {
    folder.write("limitd.yaml", "db: { inMemory: true }\nbuckets: { fixed: { size: 3 } }\n");
    return folder.write("sluice.yaml",
                        "listen:\n"
                        "  - { protocol: resp, address: \"127.0.0.1:0\" }\n"
                        "  - { protocol: limitd, address: \"127.0.0.1:0\" }\n"
                        "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                        "workers: 2\npolicy: [{ limitd: limitd.yaml }]\n" +
                            store);
  }

  Process process_;
  const uint16_t resp_ = await_listening(process_, "resp"),
                 limitd_ = await_listening(process_, "limitd"),
                 admin_ = await_listening(process_, "admin");
};

}  // namespace sluice::tests
