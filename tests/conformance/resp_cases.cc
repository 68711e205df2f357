#include "tests/conformance/resp_cases.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tests/support/paths.h"

namespace sluice::tests {
namespace {

using nlohmann::json;
using RespType = RespValue::Type;

std::vector<RespCase> read_cases(const char* path) {
  std::ifstream file(source_path(path));
  const json recording = json::parse(file);
  std::vector<RespCase> cases;
  for (const json& recorded : recording["cases"]) cases.push_back({recorded});
  return cases;
}

std::string unbase64(const std::string& text) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

std::string word_of(const json& word) {
  if (word.is_string()) return word;
  if (word.contains("b64")) return unbase64(word["b64"]);
  std::string text;
  for (int i = 0; i < word.at("repeat")[1].get<int>(); ++i) text += word["repeat"][0];
  return text;
}

std::string bytes_of_command(const json& command) {
  std::vector<std::string> words;
  for (const json& word : command) words.push_back(word_of(word));
  return to_resp(words);
}

// The bytes of a word, or of a list of words without separators.
std::string joined(const json& words) {
  if (!words.is_array()) return word_of(words);
  std::string bytes;
  for (const json& word : words) bytes += word_of(word);
  return bytes;
}

bool has_all(const json& pairs, const RespValue& got) {
  if (got.type != RespType::map && got.type != RespType::list) return false;
  std::map<std::string, const RespValue*> found;
  for (size_t i = 0; i + 1 < got.list.size(); i += 2) found[got.list[i].text] = &got.list[i + 1];
  return std::all_of(pairs.items().begin(), pairs.items().end(), [&](const auto& pair) {
    const auto at = found.find(pair.key());
    return at != found.end() && fits(pair.value(), *at->second);
  });
}

bool fits_list(const json& due, RespType type, const RespValue& got) {
  return got.type == type && got.list.size() == due.size() &&
         std::equal(due.begin(), due.end(), got.list.begin(), fits);
}

bool fits_map(const json& due, const RespValue& got) {
  json items = json::array();
  for (const json& pair : due) items.insert(items.end(), pair.begin(), pair.end());
  return fits_list(items, got.type == RespType::map ? RespType::map : RespType::list, got);
}

}  // namespace

std::string RespCase::name() const {
  return recorded["dialect"].get<std::string>() + " " + recorded["name"].get<std::string>();
}

std::string RespCase::test_name() const {
  constexpr std::string_view allowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string letters = name();
  for (char& c : letters)
    if (allowed.find(c) == allowed.npos) c = '_';
  return letters;
}

std::string RespCase::needs_redis() const {
  if (!has("redis")) return {};
  for (const json& step : steps()) {
    if (!step.contains("cmd")) continue;
    const std::string command = step["cmd"][0];
    if (command == "SET" || command == "GET" || command == "LPUSH")
      return command + " reaches into a Redis behind the server";
  }
  return {};
}

void PrintTo(const RespCase& c, std::ostream* out) {
  *out << c.name();
}

const std::vector<RespCase>& recorded_servers() {
  static const std::vector<RespCase> all = read_cases("tests/conformance/resp.json");
  return all;
}

const std::vector<RespCase>& recorded_clients() {
  static const std::vector<RespCase> all = read_cases("tests/conformance/resp_clients.json");
  return all;
}

std::string bytes_of(const json& step) {
  if (step.contains("sleep_ms")) return {};
  if (step.contains("raw")) return step["raw"];
  if (step.contains("sends")) return joined(step["sends"]);
  if (step.contains("cmd")) return bytes_of_command(step["cmd"]);
  std::string bytes;
  for (const json& command : step.at("pipeline")) bytes += bytes_of_command(command);
  return bytes;
}

RespDue due_of(const RespCase& c, const json& step) {
  const json& from = step.contains("decision") ? step["decision"] : step;
  RespDue due;
  if (from.contains("reply")) due.replies.push_back(from["reply"]);
  if (from.contains("replies"))
    for (const json& reply : from["replies"]) due.replies.push_back(reply);
  due.closed = from.value("closed", false);
  // The original died at an earlier step. Sluice decides that step otherwise, and still answers.
  if (c.has("dies") && due.closed) return {{json{{"any", 1}}}, false};
  return due;
}

bool fits(const json& due, const RespValue& got) {
  if (due.is_number()) return got.type == RespType::integer && got.number == due.get<int64_t>();
  if (due.is_string()) return got.type == RespType::bulk && got.text == due.get<std::string>();
  if (due.is_null()) return got.type == RespType::null;
  if (due.is_array()) return fits_list(due, RespType::list, got);
  const std::string kind = due.begin().key();
  const json& value = due.begin().value();
  if (kind == "any") return true;
  if (kind == "int") return got.type == RespType::integer;
  if (kind == "text") return got.type == RespType::bulk;
  if (kind == "near")
    return got.type == RespType::integer &&
           std::abs(got.number - value[0].get<int64_t>()) <= value[1].get<int64_t>();
  if (kind == "simple") return got.type == RespType::simple && got.text == value.get<std::string>();
  // Only the beginning of an error's text is compared.
  if (kind == "error")
    return got.type == RespType::error && got.text.starts_with(value.get<std::string>());
  if (kind == "like")
    return got.type == RespType::bulk &&
           std::regex_search(got.text, std::regex(value.get<std::string>()));
  if (kind == "bytes") return got.type == RespType::bulk && got.text == word_of(value);
  if (kind == "has") return has_all(value, got);
  if (kind == "map") return fits_map(value, got);
  throw std::runtime_error("an unknown matcher: " + due.dump());
}

}  // namespace sluice::tests
