#include "cli/load_overrides.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/units.h"
#include "cli/inspect.h"
#include "cli/json_fields.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr size_t part_lines_max = 1000, part_bytes_max = size_t{8} << 20;
constexpr size_t line_bytes_max = size_t{64} << 10;
constexpr std::chrono::seconds load_timeout_min{60};
// The largest file that is a single JSON document, which is read as a whole; files of lines have no
// such bound.
constexpr size_t document_bytes_max = size_t{256} << 20;

// An override that the server listed, in the form in which it is set: without the server's own
// fields.
Json as_asked(const Json& listed) {
  if (!listed.is_object() || !listed.contains("id")) return listed;
  Json one = Json::object();
  for (const char* key : {"dialect", "rule", "actor", "limits", "all_limits", "until", "comment"})
    if (listed.contains(key)) one[key] = listed[key];
  const Json& limits = list_field(listed, "limits");
  if (limits.size() != 1 || !limits[0].is_object()) return one;
  const std::string algorithm = text_field(limits[0], "algorithm");
  if (algorithm != "unlimited" && algorithm != "deny") return one;
  one.erase("limits");
  one.erase("all_limits");
  one[algorithm] = true;
  return one;
}

// The first line that is not blank, cut to a bound; "": there is none.
std::string first_line(std::ifstream& file) {
  std::string line;
  while (line.find_first_not_of(" \t\r") == line.npos && file.good()) {
    line.clear();
    for (int c = file.get(); file.good() && c != '\n' && line.size() < line_bytes_max;
         c = file.get())
      line += static_cast<char>(c);
  }
  return line;
}

// Is the file one document, as `override list --json` prints it, and not one line per override?
bool is_document(std::ifstream& file) {
  const std::string line = first_line(file);
  if (line.empty()) return false;
  const Json first = Json::parse(line, nullptr, false);
  return first.is_discarded() || first.is_array() || first.contains("overrides");
}

struct Loading {
  AdminPort& port;
  const std::string& path;
  const bool json;
  config::CommandIo& io;
  Json part = Json::array();
  std::vector<size_t> lines{};  // the line of each override of the part
  size_t bytes = 0, line = 0, loaded = 0, ended = 0;
  bool is_document = false;  // then `line` is the number in its list, from 1

  int fail(AdminPort::Reply reply) const {
    if (io.err_terminal && !json) io.err << "\r\x1b[K";
    if (loaded > 0 && !json)
      reply.problem += "; the first " + base::grouped(loaded) + " overrides are loaded";
    return report_failure(reply, json, io, {{"loaded", loaded}});
  }
  int fail(std::string problem) const {
    AdminPort::Reply reply;
    reply.kind = AdminPort::Reply::Kind::refused;
    reply.problem = std::move(problem);
    return fail(std::move(reply));
  }
  std::string place(size_t from, size_t to) const {
    if (is_document)
      return path + ": override " + std::to_string(from) +
             (to > from ? " to " + std::to_string(to) : "") + ": ";
    return path + ":" + std::to_string(from) + (to > from ? "-" + std::to_string(to) : "") + ": ";
  }
  // Replaces the index in the server's message ("[3].actor: is missing") by the line in the file.
  std::string placed(const std::string& problem) const {
    const size_t end = problem.find(']');
    if (problem.starts_with('[') && end != problem.npos)
      if (const auto at = base::parse_count(problem.substr(1, end - 1)); at && *at < lines.size()) {
        const size_t rest = problem.find_first_not_of(".: ", end + 1);
        return place(lines[*at], 0) + problem.substr(std::min(rest, problem.size()));
      }
    return place(lines.front(), lines.back()) + problem;
  }

  // Sends the part. exit_ok: the server has it.
  int send() {
    if (part.empty()) return config::exit_ok;
    auto reply = port.ask("POST", "/v1/overrides", part);
    if (!reply.is_done()) {
      reply.problem = placed(reply.problem);
      return fail(std::move(reply));
    }
    loaded += part.size();
    part = Json::array();
    lines.clear();
    bytes = 0;
    if (io.err_terminal && !json)
      io.err << "\r\x1b[K" << base::grouped(loaded) << " overrides loaded" << std::flush;
    return config::exit_ok;
  }

  int take(const std::string& text) {
    if (text.find_first_not_of(" \t\r") == text.npos) return config::exit_ok;
    Json one = Json::parse(text, nullptr, false);
    if (!one.is_object())
      return fail(place(line, line) +
                  "is not a JSON object; a line must be as "
                  "{\"rule\":\"user\",\"actor\":\"alice\",\"limit\":"
                  "{\"quota\":100,\"window\":\"1h\"}}");
    return add(std::move(one), text.size());
  }

  int add(Json one, size_t size) {
    if (true_field(one, "ended")) {
      ++ended;
      return config::exit_ok;
    }
    lines.push_back(line);
    part.push_back(as_asked(one));
    bytes += size;
    return part.size() == part_lines_max || bytes >= part_bytes_max ? send() : config::exit_ok;
  }
};

// Sends the overrides of the file, or reports an error in it.
int load_document(std::ifstream& file, Loading& loading) {
  std::string text;
  for (char bytes[1 << 16]; file.good() && text.size() <= document_bytes_max;) {
    file.read(bytes, sizeof bytes);
    text.append(bytes, static_cast<size_t>(file.gcount()));
  }
  if (text.size() > document_bytes_max)
    return loading.fail(loading.path + ": is longer than " + std::to_string(document_bytes_max) +
                        " bytes; write each override on a line of its own");
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) {
    loading.line = 1;
    return loading.take(text.substr(0, text.find('\n')));
  }
  loading.is_document = true;
  text = {};
  Json list = document.is_array() ? std::move(document) : Json::array({document});
  if (list.size() == 1 && list[0].is_object() && list[0].contains("overrides"))
    list = Json(list[0]["overrides"]);
  if (!list.is_array()) return loading.fail(loading.path + ": `overrides` must be a list");
  for (Json& one : list) {
    ++loading.line;
    if (!one.is_object())
      return loading.fail(loading.place(loading.line, loading.line) + "must be a JSON object");
    const size_t size = one.dump(-1, ' ', false, Json::error_handler_t::replace).size();
    if (const int status = loading.add(std::move(one), size); status != config::exit_ok)
      return status;
  }
  return config::exit_ok;
}

int load_lines(std::ifstream& file, Loading& loading) {
  std::string text(line_bytes_max + 1, '\0');
  while (file.getline(text.data(), static_cast<std::streamsize>(text.size())) ||
         file.gcount() > 0) {
    ++loading.line;
    if (file.fail())
      return loading.fail(loading.place(loading.line, loading.line) + "is longer than " +
                          std::to_string(line_bytes_max) + " bytes");
    const auto size = static_cast<size_t>(file.gcount()) - (file.eof() ? 0u : 1u);
    if (const int status = loading.take(text.substr(0, size)); status != config::exit_ok)
      return status;
  }
  return config::exit_ok;
}

}  // namespace

int load_overrides(AdminPort& port, const std::string& path, bool json, config::CommandIo& io) {
  port.wait_at_least(load_timeout_min);
  Loading loading{port, path, json, io};
  std::ifstream file(path, std::ios::binary);
  int bad = file ? 0 : errno;
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) bad = EISDIR;
  if (bad != 0)
    return loading.fail(path + ": cannot be read: " + std::generic_category().message(bad) +
                        "; name a file with an override on each line");
  const bool document = is_document(file);
  file.clear();
  file.seekg(0);
  const int read = document ? load_document(file, loading) : load_lines(file, loading);
  if (read != config::exit_ok) return read;
  if (file.bad()) return loading.fail(path + ": cannot be read to its end");
  if (const int status = loading.send(); status != config::exit_ok) return status;
  if (io.err_terminal && !json) io.err << "\r\x1b[K" << std::flush;
  io.out << (json ? to_text({{"loaded", loading.loaded}})
                  : base::counted(loading.loaded, "override") + " loaded" +
                        (loading.ended > 0
                             ? "; " + base::grouped(loading.ended) + " that have ended left out"
                             : "") +
                        "\n")
         << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
