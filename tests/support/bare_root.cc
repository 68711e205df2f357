#include "tests/support/bare_root.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "tests/support/fail.h"

namespace sluice::tests {
namespace {

namespace fs = std::filesystem;

// The paths of the libraries and of the loader, as ldd(1) lists them.
std::vector<std::string> libraries_of(const std::string& program) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(("ldd '" + program + "'").c_str(), "r"),
                                                   &::pclose);
  if (!pipe) fail("popen");
  std::vector<std::string> paths;
  char line[4096];
  while (::fgets(line, sizeof line, pipe.get()) != nullptr) {
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (word.starts_with('/')) paths.push_back(word);
  }
  if (paths.empty()) fail("ldd");
  return paths;
}

void copy(const std::string& from, const std::string& to) {
  fs::create_directories(fs::path(to).parent_path());
  std::error_code linked;
  fs::create_hard_link(fs::canonical(from), to, linked);
  if (linked) fs::copy_file(fs::canonical(from), to, fs::copy_options::overwrite_existing);
}

}  // namespace

BareRoot::BareRoot() {
  for (const std::string& library : libraries_of(binary_path())) copy(library, path() + library);
  copy(binary_path(), path() + binary_path());
}

void BareRoot::write(const std::string& name, const std::string& text) const {
  std::ofstream(path() + name) << text;
}

void BareRoot::make(const std::string& name, unsigned mode) const {
  fs::create_directories(path() + name);
  if (::chmod((path() + name).c_str(), mode) != 0) fail("chmod");
}

std::unique_ptr<Process> BareRoot::start(const Words& words, const Variables& variables,
                                         const std::string& redirections) const {
  const bool is_root = ::geteuid() == 0;
  Process::Options options{.arguments = {"-c",
                                         "exec " + std::string(is_root ? "" : "unshare -r ") +
                                             "chroot \"$0\" \"$@\" " + redirections,
                                         path(), binary_path()},
                           .environment = variables};
  options.arguments.insert(options.arguments.end(), words.begin(), words.end());
  options.environment.try_emplace("XDG_RUNTIME_DIR", "");
  options.environment.try_emplace("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
  return std::make_unique<Process>(options, "/bin/sh");
}

Finished BareRoot::run(const Words& words, const Variables& variables) const {
  const auto process = start(words, variables);
  const auto status = process->wait();
  if (!status) throw std::runtime_error("a command did not end in time: " + process->err());
  return {*status, process->out(), process->err()};
}

}  // namespace sluice::tests
