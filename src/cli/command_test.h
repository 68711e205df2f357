// A fixture for the commands as a user calls them: the environment, a folder for files, and what a
// command prints and its exit status.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "testing/environment_of.h"

namespace sluice::cli {

class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    std::string pattern = testing::TempDir() + "sluice_cli_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CommandTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Runs a command. Returns its exit status; its output is in `out` and `err`.
  int command(const Words& words) {
    std::ostringstream out_stream, err_stream;
    config::CommandIo io{out_stream, err_stream, false, false, tests::environment_of(variables)};
    const int status = run(words, io);
    out = out_stream.str();
    err = err_stream.str();
    return status;
  }

  std::string file(const std::string& name, std::string_view text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  bool said(const std::string& text, std::string_view part) const {
    return text.find(part) != std::string::npos;
  }

  std::map<std::string, std::string> variables;
  std::string out, err, folder_;
};

}  // namespace sluice::cli
