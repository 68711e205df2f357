// A root folder with nothing but the program, at its own path, and the libraries that it links, of
// which a static one has none: no /dev, /proc, /etc, /run or /tmp, as an unpacked image or a chroot
// may be. Without root's rights it needs user namespaces (unshare -r); without these the processes
// do not start, and the test fails.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/process.h"

namespace sluice::tests {

class BareRoot {
 public:
  using Words = std::vector<std::string>;
  using Variables = std::map<std::string, std::string>;

  explicit BareRoot(std::string program = binary_path());

  const std::string& path() const { return folder_.path(); }
  // Writes a file at a path below the root, "/rules.ini".
  void write(const std::string& name, const std::string& text) const;
  // Makes a folder, "/tmp", with these rights.
  void make(const std::string& name, unsigned mode) const;

  // The program in this root, with these variables alone. `redirections`: of a shell, as "<&-".
  std::unique_ptr<Process> start(const Words& words, const Variables& variables = {},
                                 const std::string& redirections = {}) const;
  // The same where the root cannot be written, but for what lies in `writable`, "/data", a folder
  // made here; as a user and group, by their numbers. Takes root's rights.
  std::unique_ptr<Process> start_sealed(const Words& words, const Variables& variables = {},
                                        const std::string& writable = {},
                                        const std::string& user = "65532:65532") const;
  Finished run(const Words& words, const Variables& variables = {}) const;

 private:
  std::unique_ptr<Process> start_by(const std::string& script, const Words& words,
                                    const Variables& variables) const;

  const std::string program_;
  Folder folder_;
};

}  // namespace sluice::tests
