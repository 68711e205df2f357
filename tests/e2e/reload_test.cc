// Reloads of the policy while the real server runs: what causes one, what happens to counters, and
// that a refused policy changes nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/policies.h"
#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"

namespace sluice::tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

std::string ini(int limit, const std::string& in_front = "") {
  return in_front + "[k=v]\ncreditLimit = " + std::to_string(limit) +
         "\nresetSeconds = 600\n\n[default]\ncreditLimit = 0\n";
}

std::string native(const std::string& rules) {
  return "listen: [{ protocol: divvy, address: \"127.0.0.1:0\" }]\nrules:\n" + rules;
}

std::string rule(const std::string& name, int quota) {
  return "  - { name: " + name + ", match: { k: " + name +
         " }, limit: { quota: " + std::to_string(quota) +
         ", window: 1h, algorithm: fixed_window } }\n";
}

// A server whose log reports generations.
DivvyServer served(std::vector<std::string> arguments) {
  return DivvyServer(Process::Options{.arguments = std::move(arguments),
                                      .environment = {{"SLUICE_LOG_LEVEL", "info"}}});
}

bool says_generation(DivvyServer& server, int number) {
  return server.process().says("policy generation " + std::to_string(number) + ", hash ");
}

// The hash in the log's line about a generation.
std::string hash_of(DivvyServer& server, int number) {
  const std::string start = "policy generation " + std::to_string(number) + ", hash ";
  EXPECT_TRUE(server.process().says(start));
  const std::string log = server.process().err();
  const size_t at = log.find(start);
  return at == std::string::npos ? "" : log.substr(at + start.size(), 16);
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

TEST(Reload, AChangedFileIsServedWithoutASignal) {
  const Folder folder;
  DivvyServer server = served({"divvy", folder.write("rules.ini", ini(5))});
  auto client = server.client();
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 4));
  folder.write("rules.ini", ini(10, "[x=y]\ncreditLimit = 0\n"));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 9));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 8));
  EXPECT_TRUE(server.process().says(", 3 rules, was generation 1\n")) << server.process().err();
}

// A change through another hard link of the same file, which the watch does not see.
TEST(Reload, SighupReadsFilesThatNoWatchReports) {
  const Folder folder, elsewhere;
  const std::string path = folder.write("rules.ini", ini(5));
  fs::create_hard_link(path, elsewhere.path() + "/same.ini");
  DivvyServer server = served({"divvy", path});
  auto client = server.client();
  ASSERT_TRUE(says_generation(server, 1));
  elsewhere.write("same.ini", ini(10));
  server.process().signal(SIGHUP);
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 9));
}

TEST(Reload, SighupSaysWhenNothingHasChanged) {
  const Folder folder;
  DivvyServer server = served({"divvy", folder.write("rules.ini", ini(5))});
  server.process().signal(SIGHUP);
  ASSERT_TRUE(server.process().says("policy unchanged, generation 1, hash "));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 4));
}

TEST(Reload, SighupWithTheBuiltInExampleChangesNothing) {
  DivvyServer server = served({"serve", "--listen", "divvy=127.0.0.1:0"});
  server.process().signal(SIGHUP);
  EXPECT_TRUE(server.process().says("policy unchanged, generation 1, hash "));
}

TEST(Reload, TheSameContentDoesNotMakeANewGeneration) {
  const Folder folder;
  const std::string path = folder.write("rules.ini", ini(5));
  DivvyServer server = served({"divvy", path});
  folder.write("rules.ini", ini(5));
  std::this_thread::sleep_for(300ms);  // long enough for a reading of its own
  fs::last_write_time(path, fs::file_time_type::clock::now());
  std::this_thread::sleep_for(300ms);
  folder.write("rules.ini", ini(6));
  ASSERT_TRUE(server.process().says("was generation 1\n"));
  EXPECT_TRUE(says_generation(server, 2));
  EXPECT_EQ(count(server.process().err(), "was generation"), 1u) << server.process().err();
}

TEST(Reload, TheHashIdentifiesTheLivePolicy) {
  const Folder folder, another;
  DivvyServer server = served({"divvy", folder.write("rules.ini", ini(5))});
  const std::string first = hash_of(server, 1);
  folder.write("rules.ini", ini(6));
  const std::string second = hash_of(server, 2);
  folder.write("rules.ini", ini(5));
  EXPECT_EQ(hash_of(server, 3), first);
  EXPECT_NE(second, first);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos) << first;
  DivvyServer other = served({"divvy", another.write("others.ini", ini(6))});
  EXPECT_EQ(hash_of(other, 1), second);
}

// A folder that is updated as Kubernetes updates a ConfigMap: the files are links into `..data`,
// which is a link to a folder named for its time and is replaced by a rename.
class ConfigMap {
 public:
  ConfigMap(const Folder& folder, std::string name, const std::string& text)
      : path_(folder.path()), name_(std::move(name)) {
    update(text);
    fs::create_symlink("..data/" + name_, path_ + '/' + name_);
  }

  void update(const std::string& text) {
    const std::string fresh = "..2026_" + std::to_string(++updates_);
    fs::create_directory(path_ + '/' + fresh);
    std::ofstream(path_ + '/' + fresh + '/' + name_) << text;
    fs::create_symlink(fresh, path_ + "/..data_tmp");
    fs::rename(path_ + "/..data_tmp", path_ + "/..data");
    if (updates_ > 1) fs::remove_all(path_ + "/..2026_" + std::to_string(updates_ - 1));
  }

 private:
  const std::string path_, name_;
  int updates_ = 0;
};

TEST(Reload, FollowsTheLinksOfAConfigMap) {
  const Folder folder;
  ConfigMap map(folder, "rules.ini", ini(5));
  DivvyServer server = served({"divvy", folder.path() + "/rules.ini"});
  auto client = server.client();
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 4));
  for (int generation = 2; generation < 5; ++generation) {
    map.update(ini(generation * 100));
    ASSERT_TRUE(says_generation(server, generation));
    EXPECT_TRUE(grants(client.ask("HIT k=v"), generation * 100 - 1));
  }
  EXPECT_EQ(count(server.process().err(), " error "), 0u);
}

// Links in the middle of the path are followed, too.
TEST(Reload, FollowsAFolderThatIsALink) {
  const Folder folder;
  for (const char* name : {"a", "b"}) fs::create_directory(folder.path() + '/' + name);
  folder.write("a/rules.ini", ini(5));
  folder.write("b/rules.ini", ini(50));
  fs::create_directory_symlink("a", folder.path() + "/now");
  DivvyServer server = served({"divvy", folder.path() + "/now/rules.ini"});
  ASSERT_TRUE(says_generation(server, 1));
  fs::create_directory_symlink("b", folder.path() + "/next");
  fs::rename(folder.path() + "/next", folder.path() + "/now");
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 49));
  folder.write("b/rules.ini", ini(60));  // what they lead to is watched from then on
  ASSERT_TRUE(says_generation(server, 3));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 59));
}

TEST(Reload, FollowsTheRenamesOfEditors) {
  const Folder folder;
  const std::string path = folder.write("rules.ini", ini(5));
  DivvyServer server = served({"divvy", path});
  // An editor that renames the new file over the old one.
  fs::rename(folder.write(".rules.ini.new", ini(6)), path);
  ASSERT_TRUE(says_generation(server, 2));
  // An editor that moves the old file away, and writes the new one some time later.
  fs::rename(path, path + "~");
  std::this_thread::sleep_for(300ms);
  folder.write("rules.ini", ini(7));
  ASSERT_TRUE(says_generation(server, 3));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 6));
  EXPECT_EQ(count(server.process().err(), " error "), 0u);
}

// A file is not read before its writer has closed it.
TEST(Reload, AFileThatIsBeingWrittenIsWaitedFor) {
  const Folder folder;
  const std::string path = folder.write("rules.ini", ini(5));
  DivvyServer server = served({"divvy", path});
  ASSERT_TRUE(says_generation(server, 1));
  std::ofstream file(path, std::ios::trunc);
  file << "[k=v]\ncreditLimit = 6\nresetSeconds = 6" << std::flush;
  std::this_thread::sleep_for(1500ms);
  file << "00\n[default]\ncreditLimit = 0\n";
  file.close();
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_EQ(server.client().ask("HIT k=v"), "OK true 5 600");
  EXPECT_EQ(count(server.process().err(), " error "), 0u);
}

TEST(Reload, ARefusedPolicyChangesNothingAndIsReported) {
  const Folder folder;
  DivvyServer server = served({"divvy", folder.write("rules.ini", ini(5))});
  auto client = server.client();
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 4));
  folder.write("rules.ini", "[x=y]\nresetSeconds = 60\n\n" + ini(10));
  Process& process = server.process();
  ASSERT_TRUE(process.says("policy refused; live stays generation 1, hash "));
  EXPECT_TRUE(process.says("error policy: " + folder.path() +
                           "/rules.ini:1: error: rule [x=y]: creditLimit is missing; add "))
      << process.err();
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 3));
  // When an operator requests a reload, the refusal is logged again.
  process.signal(SIGHUP);
  const Deadline deadline = soon();
  while (count(process.err(), "policy refused") < 2 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(count(process.err(), "policy refused"), 2u);
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 2));

  folder.write("rules.ini", ini(10));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 9));
}

TEST(Reload, ARefusedPolicyThatIsRevertedEqualsTheLiveOne) {
  const Folder folder;
  DivvyServer server = served({"divvy", folder.write("rules.ini", ini(5))});
  folder.write("rules.ini", "[k=v]\n");
  ASSERT_TRUE(server.process().says("policy refused; live stays generation 1, hash "));
  folder.write("rules.ini", ini(5));
  ASSERT_TRUE(server.process().says("policy again as it is live, generation 1, hash "));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 4));
}

TEST(Reload, AMissingFileIsAnErrorUntilItReturns) {
  const Folder folder;
  const std::string path = folder.write("rules.ini", ini(5));
  DivvyServer server = served({"divvy", path});
  ASSERT_TRUE(says_generation(server, 1));
  fs::remove(path);
  ASSERT_TRUE(server.process().says("policy refused; live stays generation 1"));
  EXPECT_TRUE(server.process().says("rules.ini: error: cannot be read: No such file"));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 4));
  folder.write("rules.ini", ini(6));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 5));
}

TEST(Reload, FollowsAFolderThatDisappearsAndReturns) {
  const Folder folder;
  fs::create_directory(folder.path() + "/etc");
  const std::string path = folder.write("etc/rules.ini", ini(5));
  DivvyServer server = served({"divvy", path});
  ASSERT_TRUE(says_generation(server, 1));
  fs::remove_all(folder.path() + "/etc");
  ASSERT_TRUE(server.process().says("policy refused; live stays generation 1"));
  fs::create_directory(folder.path() + "/etc");
  folder.write("etc/rules.ini", ini(6));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 5));
}

TEST(Reload, CountersOfUnchangedRulesContinue) {
  const Folder folder;
  DivvyServer server = served({"divvy", folder.write("rules.ini", ini(5))});
  auto client = server.client();
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 4));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 3));
  folder.write("rules.ini", ini(5, "[a=b k=v]\ncreditLimit = 9\nresetSeconds = 60\n"));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 2));
  EXPECT_TRUE(grants(client.ask("HIT k=v a=b"), 8));
  folder.write("rules.ini", ini(5));
  ASSERT_TRUE(says_generation(server, 3));
  EXPECT_TRUE(grants(client.ask("HIT k=v a=b"), 1));
}

TEST(Reload, CountersOfUnchangedNativeRulesContinue) {
  const Folder folder;
  const std::string path = folder.write("sluice.yaml", native(rule("a", 5) + rule("b", 5)));
  DivvyServer server = served({"serve", "--config", path});
  auto client = server.client();
  EXPECT_TRUE(grants(client.ask("HIT k=a"), 4));
  EXPECT_TRUE(grants(client.ask("HIT k=b"), 4));
  folder.write("sluice.yaml", native(rule("new", 1) + rule("b", 5) + rule("a", 5)));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(client.ask("HIT k=a"), 3));
  EXPECT_TRUE(grants(client.ask("HIT k=b"), 3));
  EXPECT_TRUE(grants(client.ask("HIT k=new"), 0));
}

// As in Divvy, where limit and window are part of a counter's key.
TEST(Reload, AChangedDivvyRuleHasAFreshCounter) {
  const Folder folder;
  DivvyServer server = served({"divvy", folder.write("rules.ini", ini(5))});
  auto client = server.client();
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 4));
  folder.write("rules.ini", ini(6));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 5));
  folder.write("rules.ini", ini(5));  // the old counter is still there
  ASSERT_TRUE(says_generation(server, 3));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 3));
}

TEST(Reload, PoliciesComeAndGo) {
  const Folder folder;
  const std::string rules = native(rule("a", 5));
  const std::string path = folder.write("sluice.yaml", rules);
  DivvyServer server = served({"serve", "--config", path});
  auto client = server.client();
  EXPECT_EQ(client.ask("HIT k=v"), "OK false 0 -1");
  folder.write("rules.ini", ini(10));
  folder.write("sluice.yaml", rules + "policy: [{ divvy: rules.ini }]\n");
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 9));
  folder.write("rules.ini", ini(20));  // watched from now on
  ASSERT_TRUE(says_generation(server, 3));
  EXPECT_TRUE(grants(client.ask("HIT k=v"), 19));
  folder.write("sluice.yaml", rules);
  ASSERT_TRUE(says_generation(server, 4));
  EXPECT_EQ(client.ask("HIT k=v"), "OK false 0 -1");
  EXPECT_TRUE(grants(client.ask("HIT k=a"), 4));
}

TEST(Reload, ANamedPolicyMayComeAfterItsName) {
  const Folder folder;
  const std::string rules = native(rule("a", 5));
  DivvyServer server = served({"serve", "--config", folder.write("sluice.yaml", rules)});
  ASSERT_TRUE(says_generation(server, 1));
  folder.write("sluice.yaml", rules + "policy: [{ divvy: late.ini }]\n");
  ASSERT_TRUE(server.process().says("late.ini: error: cannot be read"));
  folder.write("late.ini", ini(10));
  ASSERT_TRUE(says_generation(server, 2));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 9));
}

TEST(Reload, WarnsOfChangesThatNeedARestart) {
  const Folder folder;
  const std::string rules = native(rule("a", 5));
  DivvyServer server = served({"serve", "--config", folder.write("sluice.yaml", rules)});
  folder.write("sluice.yaml", rules + rule("b", 6) + "workers: 3\nstore: { memory: 32MiB }\n");
  ASSERT_TRUE(says_generation(server, 2));
  Process& process = server.process();
  const std::string what = " was changed since the start, and a reload does not apply it";
  EXPECT_TRUE(process.says("sluice.yaml: warning: workers:" + what)) << process.err();
  EXPECT_TRUE(process.says("sluice.yaml: warning: store.memory:" + what));
  EXPECT_EQ(process.err().find("warning: listen:"), std::string::npos);
  EXPECT_TRUE(grants(server.client().ask("HIT k=b"), 5));
}

TEST(Reload, DoesNotReadAPipeAgain) {
  const Folder folder;
  const std::string path = folder.path() + "/rules.ini";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << ini(5); });
  DivvyServer server = served({"divvy", path});
  writer.join();
  server.process().signal(SIGHUP);
  ASSERT_TRUE(server.process().says("there is no policy to read again"));
  EXPECT_TRUE(grants(server.client().ask("HIT k=v"), 4));
}

// Each generation allows one of two operations. Requests that are pipelined in one write are one
// batch, which must be decided by one generation.
TEST(Reload, EveryBatchIsDecidedByOneGenerationWhole) {
  const auto policy = [](bool left) {
    const std::string limits[] = {"creditLimit = 0\n",
                                  "creditLimit = 1000000000\nresetSeconds = 600\n"};
    return "[left=1]\n" + limits[left ? 1 : 0] + "[right=1]\n" + limits[left ? 0 : 1] +
           "[default]\ncreditLimit = 0\n";
  };
  const Folder folder;
  const std::string path = folder.write("rules.ini", policy(true));
  DivvyServer server = served({"divvy", "--workers", "3", path});
  std::atomic<bool> done{false};
  std::atomic<long> lefts{0}, rights{0};
  std::vector<TcpClient> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(server.client());
  std::vector<std::thread> threads;
  for (auto& client : clients) {
    threads.emplace_back([&] {
      try {
        while (!done) {
          ASSERT_TRUE(client.send("HIT left=1\nHIT right=1\nHIT left=1\n"));
          const std::string first = client.read_line().value_or("(end)");
          const std::string second = client.read_line().value_or("(end)");
          const std::string third = client.read_line().value_or("(end)");
          const bool left = first.starts_with("OK true ");
          ASSERT_TRUE(left || first == "OK false 0 -1") << first;
          ASSERT_EQ(second.starts_with("OK true "), !left) << first << ", " << second;
          ASSERT_EQ(third.starts_with("OK true "), left) << first << ", " << third;
          ++(left ? lefts : rights);
        }
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
  }
  constexpr int generations = 20;
  for (int generation = 2; generation <= generations && !HasFailure(); ++generation) {
    const bool left = generation % 2 == 1;
    fs::rename(folder.write("next.ini", policy(left)), path);
    server.process().signal(SIGHUP);
    EXPECT_TRUE(says_generation(server, generation));
    // Each generation decides, however fast it is replaced.
    const std::atomic<long>& decided = left ? lefts : rights;
    const long before = decided;
    EXPECT_TRUE(comes([&] { return decided > before; })) << generation;
  }
  done = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count(server.process().err(), "was generation"), generations - 1u);
}

}  // namespace
}  // namespace sluice::tests
