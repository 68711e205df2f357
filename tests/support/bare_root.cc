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

// The paths of the libraries and of the loader, as ldd(1) lists them; a static program has none.
std::vector<std::string> libraries_of(const std::string& program) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen(("ldd '" + program + "' 2>/dev/null").c_str(), "r"), &::pclose);
  if (!pipe) fail("popen");
  std::vector<std::string> paths;
  char line[4096];
  while (::fgets(line, sizeof line, pipe.get()) != nullptr) {
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (word.starts_with('/')) paths.push_back(word);
  }
  return paths;
}

void copy(const std::string& from, const std::string& to) {
  fs::create_directories(fs::path(to).parent_path());
  std::error_code linked;
  fs::create_hard_link(fs::canonical(from), to, linked);
  if (linked) fs::copy_file(fs::canonical(from), to, fs::copy_options::overwrite_existing);
}

}  // namespace

BareRoot::BareRoot(std::string program) : program_(std::move(program)) {
  for (const std::string& library : libraries_of(program_)) copy(library, path() + library);
  copy(program_, path() + program_);
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
  return start_by(
      "exec " + std::string(is_root ? "" : "unshare -r ") + "chroot \"$0\" \"$@\" " + redirections,
      words, variables);
}

std::unique_ptr<Process> BareRoot::start_sealed(const Words& words, const Variables& variables,
                                                const std::string& writable,
                                                const std::string& user) const {
  std::string script =
      "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec chroot --userspec=" +
      user + " \"$0\" \"$@\"";
  if (!writable.empty()) {
    make(writable, 0777);
    script.insert(script.find("exec "), "mount --bind \"$0" + writable + "\" \"$0" + writable +
                                            "\" && mount -o remount,rw,bind \"$0" + writable +
                                            "\" && ");
  }
  fs::permissions(path(), fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
  return start_by("exec unshare --mount /bin/sh -c '" + script + "' \"$0\" \"$@\"", words,
                  variables);
}

std::unique_ptr<Process> BareRoot::start_by(const std::string& script, const Words& words,
                                            const Variables& variables) const {
  Process::Options options{.arguments = {"-c", script, path(), program_}, .environment = variables};
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
