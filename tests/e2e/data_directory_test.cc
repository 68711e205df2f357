// The folder of the store on disk: missing, not writable, in use, of a later version, damaged. The
// real server must start with all that was stored, or say why it does not start.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}
void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class DataDirectory : public testing::Test {
 protected:
  DataDirectory() : rules_(folder_.write("rules.ini", hundred_policy)) {}

  Process::Options options(const std::string& durability = "always") const {
    return {.arguments = {"divvy", rules_, "--data", data_, "--durability", durability},
            .environment = {{"PORT", "0"}, {"SLUICE_LOG_LEVEL", "warn"}}};
  }
  // Starts a server, takes one unit of each of `count` counters, and stops it.
  void fill(int count, const std::string& durability = "always") const {
    DivvyServer server(options(durability));
    auto client = server.client();
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(client.ask("HIT k=v who=" + std::to_string(i)), "OK true 99 600");
  }
  void fill_one(const std::string& durability) const {
    DivvyServer server(options(durability));
    ASSERT_EQ(server.client().ask("HIT k=v who=else"), "OK true 99 600");
    server.process().signal(SIGTERM);
    EXPECT_EQ(server.process().wait(), 0);
  }
  // Expects that the server does not start, and that its error has these words.
  void refuses(const std::vector<std::string>& words) const {
    const auto finished = run(options());
    EXPECT_EQ(finished.status, 1) << finished.out;
    EXPECT_EQ(finished.out.find("listening"), std::string::npos) << finished.out;
    for (const auto& word : words)
      EXPECT_NE(finished.err.find(word), std::string::npos) << word << "\n" << finished.err;
  }

  Folder folder_;
  const std::string data_ = folder_.path() + "/new/data";
  const std::string rules_;
};

TEST_F(DataDirectory, WarnsOfAnUnusedDirectoryWithCounters) {
  const std::string words = "`" + data_ + "` holds counters of an earlier start";
  {
    DivvyServer none(options("none"));
    EXPECT_EQ(none.process().err().find("holds counters"), std::string::npos)
        << none.process().err();
  }
  fill(3);
  DivvyServer none(options("none"));
  EXPECT_TRUE(none.process().says(words));
  EXPECT_TRUE(none.process().says("with durability none they are neither read nor written"));
  EXPECT_EQ(none.client().ask("HIT k=v who=1"), "OK true 99 600");
}

// The banner's line about the counters, behind those of the listeners.
std::string line_of_counters(Process& process) {
  while (auto line = process.read_line())
    if (line->starts_with("sluice: counters ")) return *std::move(line);
  return {};
}

TEST_F(DataDirectory, IsMadeIfMissingAndNamedInTheBanner) {
  const std::vector<std::pair<std::string, std::string>> all{
      {"always", ", committed before they are answered"}, {"interval", ", committed every 100 ms"}};
  for (const auto& [durability, how] : all) {
    Process process(options(durability));
    await_listening(process);
    EXPECT_EQ(line_of_counters(process), "sluice: counters in " + data_ + how);
    EXPECT_TRUE(fs::exists(data_ + "/sluice/CURRENT"));
  }
  // The default with a folder is `interval`; `none` keeps nothing there.
  Process::Options other = options("none");
  Process none(other);
  await_listening(none);
  EXPECT_EQ(line_of_counters(none), "sluice: counters in memory, forgotten at exit, not shared");
  other.arguments = {"divvy", rules_, "--data", data_};
  Process unsaid(other);
  await_listening(unsaid);
  EXPECT_EQ(line_of_counters(unsaid), "sluice: counters in " + data_ + ", committed every 100 ms");
  unsaid.signal(SIGTERM);
  EXPECT_EQ(unsaid.wait(), 0);
  const std::string config =
      folder_.write("sluice.yaml", "store: { path: \"" + data_ +
                                       "\", durability: interval, interval_ms: 20, fsync: true }\n"
                                       "policy: [{ divvy: rules.ini }]\n");
  Process synced({.arguments = {"serve", "--config", config, "--listen", "divvy=127.0.0.1:0"}});
  await_listening(synced);
  EXPECT_EQ(line_of_counters(synced),
            "sluice: counters in " + data_ + ", committed every 20 ms, and synced");
}

TEST_F(DataDirectory, CountersSurviveARestart) {
  for (const std::string durability : {"always", "interval"}) {
    fill(durability == "always" ? 50 : 0, durability);
    DivvyServer server(options(durability));
    auto client = server.client();
    const std::string left = durability == "always" ? "98" : "97";
    for (int i = 0; i < 50; ++i) {
      const auto reply = client.ask("HIT k=v who=" + std::to_string(i));
      ASSERT_TRUE(reply.starts_with("OK true " + left + " ")) << reply;
    }
  }
}

TEST_F(DataDirectory, ReportsAFileInItsPlace) {
  fs::create_directory(folder_.path() + "/new");
  write(data_, "no directory");
  refuses({"`" + data_ + "` is not a directory"});
  EXPECT_EQ(text_of(data_), "no directory");
  fs::remove_all(folder_.path() + "/new");
  write(folder_.path() + "/new", "nor this");
  refuses({"`" + data_ + "`", "cannot be made"});
}

// Root may write everywhere except in the kernel's own folders.
TEST_F(DataDirectory, ReportsADirectoryThatCannotBeWritten) {
  std::string data = "/proc/sluice";
  if (::geteuid() != 0) {
    data = folder_.path() + "/mine";
    fs::create_directory(data);
    fs::permissions(data, fs::perms::owner_read | fs::perms::owner_exec);
  }
  const auto finished =
      run({.arguments = {"divvy", rules_, "--data", data}, .environment = {{"PORT", "0"}}});
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.err.find("`" + data + "` cannot be "), std::string::npos) << finished.err;
}

TEST_F(DataDirectory, ReportsTheProcessOfAnotherServerThatUsesIt) {
  DivvyServer server(options());
  refuses({"`" + data_ + "` is in use by process " + std::to_string(server.process().pid())});
  EXPECT_EQ(server.client().ask("HIT k=v"), "OK true 99 600");
}

// As in a rolling restart: the next server is started while the one before still ends.
TEST_F(DataDirectory, AServerWaitsForTheOneThatStillHasIt) {
  DivvyServer first(options());
  EXPECT_TRUE(grants(first.client().ask("HIT k=v"), 99));
  Process next({.arguments = {"divvy", rules_, "--data", data_, "--wait", "100s"},
                .environment = {{"PORT", "0"}}});
  ASSERT_TRUE(next.says("waiting for the store in `" + data_ + "`, which process " +
                        std::to_string(first.process().pid()) + " has"))
      << next.err();
  first.process().signal(SIGTERM);
  EXPECT_EQ(first.process().wait(), 0);
  const uint16_t port = await_listening(next);
  EXPECT_TRUE(grants(TcpClient::connect(port)->ask("HIT k=v"), 98));
  next.signal(SIGTERM);
  EXPECT_EQ(next.wait(), 0);
}

TEST_F(DataDirectory, AServerThatWaitsEndsAtOnceWhenItIsStopped) {
  DivvyServer first(options());
  EXPECT_TRUE(grants(first.client().ask("HIT k=v"), 99));
  for (const int number : {SIGTERM, SIGINT, SIGQUIT}) {
    Process next({.arguments = {"divvy", rules_, "--data", data_, "--wait", "300s"},
                  .environment = {{"PORT", "0"}}});
    ASSERT_TRUE(next.says("waiting for the store in `" + data_ + "`")) << next.err();
    next.signal(number);
    EXPECT_EQ(next.wait(), 0) << number;
    EXPECT_TRUE(next.says("stopped by a signal before the store was open; nothing was served"))
        << next.err();
  }
  EXPECT_TRUE(grants(first.client().ask("HIT k=v"), 98)) << "which has the store as before";
}

TEST_F(DataDirectory, AServerThatWaitsGivesUpAfterItsTime) {
  DivvyServer server(options());
  const auto finished = run({.arguments = {"divvy", rules_, "--data", data_, "--wait", "200ms"},
                             .environment = {{"PORT", "0"}}});
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.err.find("is in use by process " + std::to_string(server.process().pid())),
            std::string::npos)
      << finished.err;
}

// A killed server leaves no lock.
TEST_F(DataDirectory, AKilledServerLeavesNoLock) {
  {
    DivvyServer server(options());
    EXPECT_EQ(server.client().ask("HIT k=v"), "OK true 99 600");
    server.process().signal(SIGKILL);
    EXPECT_EQ(server.process().wait(), 128 + SIGKILL);
  }
  DivvyServer server(options());
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 98));
}

TEST_F(DataDirectory, AnEarlierFormatIsRefusedWithTheWayToBegin) {
  fill(3);
  const std::string format = "sluice store 2, read by sluice 0.1.0 and later\n";
  fs::remove(data_ + "/sluice/CURRENT");
  write(data_ + "/sluice/FORMAT", format);
  refuses({"has format 2, which no release has", "this program reads format 5",
           "move `" + data_ + "/sluice` away to begin a new store, or name another directory"});
  EXPECT_EQ(text_of(data_ + "/sluice/FORMAT"), format);
}

TEST_F(DataDirectory, ALaterFormatIsRefusedWithTheVersionThatReadsIt) {
  fill(3);
  write(data_ + "/sluice/CURRENT", "sluice store 9, read by sluice 7.8.9 and later\n");
  refuses({"has format 9", "sluice 7.8.9 or later", "this program reads format 5"});
  EXPECT_EQ(text_of(data_ + "/sluice/CURRENT"), "sluice store 9, read by sluice 7.8.9 and later\n");
}

std::vector<fs::path> files_of(const fs::path& store) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::recursive_directory_iterator(store))
    if (entry.is_regular_file() && entry.file_size() > 0) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

// Removes each file of a store, cuts it in half, or overwrites its middle. The server must say that
// the store is damaged, or have every counter: it must never begin from the beginning silently.
TEST_F(DataDirectory, NeverStartsEmptyAfterDamage) {
  constexpr int count = 200;
  fill(count);
  fill(0);  // so that what was stored is not in the last log
  const fs::path store = data_ + "/sluice", whole = folder_.path() + "/whole";
  fs::copy(store, whole, fs::copy_options::recursive);
  const std::vector<std::pair<const char*, std::function<void(const fs::path&)>>> harms{
      {"gone", [](const fs::path& file) { fs::remove(file); }},
      {"cut", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }},
      {"garbled", [](const fs::path& file) {
         std::string text = text_of(file);
         for (size_t i = text.size() / 4; i < text.size() / 4 * 3 + 1 && i < text.size(); ++i)
           text[i] = static_cast<char>(text[i] ^ 0x5a);
         write(file, text);
       }}};
  int told = 0, kept = 0;
  for (const auto& file : files_of(whole)) {
    for (const auto& [how, harm] : harms) {
      const fs::path name = fs::relative(file, whole);
      const bool is_log = name.string().starts_with("log-");
      SCOPED_TRACE(name.string() + " " + how);
      fs::remove_all(store);
      fs::copy(whole, store, fs::copy_options::recursive);
      harm(store / name);
      Process process(options());
      std::optional<std::string> line;
      do line = process.read_line();
      while (line && !line->starts_with("sluice: divvy listening on "));
      if (!line) {
        EXPECT_EQ(process.wait(), 1);
        EXPECT_NE(process.err().find(data_), std::string::npos) << process.err();
        ++told;
        continue;
      }
      auto client =
          TcpClient::connect(static_cast<uint16_t>(std::stoi(line->substr(line->rfind(':') + 1))));
      ASSERT_TRUE(client);
      int fresh = 0;
      for (int i = 0; i < count; ++i) {
        const std::string reply = client->ask("HIT k=v who=" + std::to_string(i));
        if (reply.starts_with("ERR ")) break;
        fresh += reply.starts_with("OK true 99 ");
      }
      // The end of a log may be missing after a power cut; only what is before it must be there.
      const bool cut_log = is_log && std::string(how) == "cut";
      EXPECT_TRUE(fresh == 0 || (cut_log && fresh < count) ||
                  process.err().find("damaged") != std::string::npos)
          << fresh << " counters begin again, and nothing is said: " << process.err();
      ++kept;
    }
  }
  EXPECT_GT(told, 0);
  EXPECT_GT(kept, 0);
}

// A snapshot whose damage shows only when it is read: the server starts, is live, and is not ready.
// Requests for counters in the snapshot get an error, not a fresh counter.
TEST_F(DataDirectory, CountersThatCannotBeReadAreNotReady) {
  constexpr int count = 4'000, at_once = 50;
  const auto key = [](int i) { return std::to_string(i) + std::string(600, 'k'); };
  {
    DivvyServer server(options("interval"));
    auto client = server.client();
    for (int first = 0; first < count; first += at_once) {
      std::string lines;
      for (int i = first; i < first + at_once; ++i) lines += "HIT k=v who=" + key(i) + "\n";
      ASSERT_TRUE(client.send(lines));
      for (int i = 0; i < at_once; ++i) ASSERT_EQ(client.read_line(), "OK true 99 600");
    }
  }
  // Leaves all of it as a snapshot.
  ASSERT_EQ(run({.arguments = {"store", "repair", data_}}).status, 0);
  for (const auto& file : files_of(data_ + "/sluice")) {
    if (!file.filename().string().starts_with("snapshot-")) continue;
    std::string text = text_of(file);
    for (size_t i = text.size() / 4; i < text.size() / 2; ++i)
      text[i] = static_cast<char>(text[i] ^ 0x5a);
    write(file, text);
  }
  Process::Options with_admin = options("interval");
  with_admin.arguments.insert(with_admin.arguments.end(), {"--admin", "127.0.0.1:0"});
  Process process(with_admin);
  const uint16_t port = await_listening(process), admin = await_listening(process, "admin");
  HttpAnswer ready = http_get(admin, "/health/ready");
  for (const auto end = soon(); ready.body.find("cannot be read") == std::string::npos;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << ready.body;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ready = http_get(admin, "/health/ready");
  }
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find("sluice store check"), std::string::npos) << ready.body;
  EXPECT_EQ(http_get(admin, "/health/live").status, 200);
  int failed = 0;
  for (int i = 0; i < count && failed == 0; ++i) {
    auto client = TcpClient::connect(port);
    ASSERT_TRUE(client);
    const std::string reply = client->ask("HIT k=v who=" + key(i));
    EXPECT_FALSE(reply.starts_with("OK true 99 ")) << i;
    failed += reply.starts_with("ERR ");
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(http_get(admin, "/health/ready").status, 503);
}

// A log as a power cut may leave it: cut, or with zeros in place of its last bytes or blocks.
// Without fsync the server starts, says so, and has all that is before.
TEST_F(DataDirectory, CutsAndReportsAnUnwrittenEndOfALog) {
  for (const std::string durability : {"always", "interval"}) {
    SCOPED_TRACE(durability);
    fs::remove_all(folder_.path() + "/new");
    fill_one(durability);
    fill(200, durability);
    fs::path log;
    for (const auto& file : files_of(data_ + "/sluice"))
      if (file.filename().string().starts_with("log-")) log = file;
    const std::string whole = text_of(log);
    const fs::path kept = folder_.path() + "/kept";
    fs::remove_all(kept);
    fs::copy(data_, kept, fs::copy_options::recursive);
    for (const size_t bytes : {size_t{30}, size_t{4096}, size_t{65536}}) {
      for (const bool zeros : {false, true}) {
        SCOPED_TRACE(std::to_string(bytes) + (zeros ? " zeros" : " cut"));
        fs::remove_all(data_);
        fs::copy(kept, data_, fs::copy_options::recursive);
        // The last 30 bytes are lost in each case; further zeros are after the log's former end.
        std::string text = whole;
        const size_t lost = std::min<size_t>(bytes, 30);
        text.resize(text.size() - lost);
        if (zeros) text.resize(text.size() + bytes);
        write(log, text);
        DivvyServer server(options(durability));
        EXPECT_TRUE(server.process().says("its end was never synced")) << server.process().err();
        auto client = server.client();
        int fresh = 0;
        for (int i = 0; i < 200; ++i)
          fresh += client.ask("HIT k=v who=" + std::to_string(i)).starts_with("OK true 99 ");
        EXPECT_GT(fresh, 0);
        EXPECT_LT(fresh, durability == "always" ? 10 : 201);
      }
    }
  }
}

// Runs the commands of docs/durability.md, with this test's port and process.
TEST_F(DataDirectory, TheManualsSession) {
  folder_.write("rules.ini",
                "[k=v]\ncreditLimit = 3\nresetSeconds = 3600\n[default]\ncreditLimit = 0\n");
  std::istringstream manual(text_of(tests::source_path("docs/durability.md")));
  std::vector<std::string> start;
  std::unique_ptr<DivvyServer> server;
  bool here = false, session = false;
  int asked = 0, killed = 0;
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("## ")) here = line == "## Try it";
    if (line.starts_with("```")) session = line == "```console";
    std::istringstream rest(line);
    std::vector<std::string> words;
    for (std::string word; rest >> word;) words.push_back(word);
    if (!here || words.empty()) continue;
    if (line.starts_with("    sluice divvy ")) {
      start.assign(words.begin() + 1, words.end());
      server = std::make_unique<DivvyServer>(
          Process::Options{.arguments = start, .folder = folder_.path()});
    } else if (session && line == "$ kill -9 SERVER") {
      server->process().signal(SIGKILL);
      EXPECT_EQ(server->process().wait(), 128 + SIGKILL);
      server = std::make_unique<DivvyServer>(
          Process::Options{.arguments = start, .folder = folder_.path()});
      ++killed;
    } else if (session && line.starts_with("$ sluice ")) {
      words.erase(words.begin(), words.begin() + 2);
      words.insert(words.begin() + 2, {"--timeout", "20000", "--server",
                                       "127.0.0.1:" + std::to_string(server->port())});
      const auto finished = run({.arguments = words});
      ASSERT_TRUE(std::getline(manual, line));
      EXPECT_EQ(finished.status, 0) << finished.err;
      // Seconds may pass between two commands.
      const std::string out =
          std::regex_replace(finished.out, std::regex(" in 59m[0-9]+s\n"), " in 1h\n");
      EXPECT_EQ(out, line + "\n");
      ++asked;
    }
  }
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(killed, 1);
}

// limitd keeps its buckets in a LevelDB directly in `db`; sluice's store is in the folder `sluice`
// there.
TEST_F(DataDirectory, LimitdsOwnDatabaseIsNotWritten) {
  const fs::path db = folder_.path() + "/db";
  fs::create_directory(db);
  const std::vector<std::pair<std::string, std::string>> theirs{
      {"CURRENT", "MANIFEST-000002\n"},
      {"MANIFEST-000002", "\x56\xf9\xb8\xf8\x1c"},
      {"000003.log", ""},
      {"LOCK", ""},
      {"LOG", "2026/01/01-00:00:00 Recovering log\n"}};
  for (const auto& [name, text] : theirs) write(db / name, text);
  const auto before = fs::last_write_time(db / "CURRENT");
  {
    LimitdServer server("db: \"" + db.string() + "\"\nbuckets: { fixed: { size: 3 } }\n");
    EXPECT_EQ(server.client().take("fixed", "k", 2).remaining, 1);
    server.process().signal(SIGKILL);
    EXPECT_EQ(server.process().wait(), 128 + SIGKILL);
  }
  LimitdServer server("db: \"" + db.string() + "\"\nbuckets: { fixed: { size: 3 } }\n");
  EXPECT_FALSE(server.client().take("fixed", "k", 2).conformant);
  for (const auto& [name, text] : theirs) EXPECT_EQ(text_of(db / name), text) << name;
  EXPECT_EQ(fs::last_write_time(db / "CURRENT"), before);
  EXPECT_TRUE(fs::exists(db / "sluice" / "CURRENT"));
}

}  // namespace
}  // namespace sluice::tests
