#include "protocol/envoy/reflection.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "protocol/envoy/proto_files.h"
#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

using ReflectionReader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;

// The most levels of nested unknown groups; a message with more is malformed.
constexpr int unknown_groups_max = 100;
// The codes of error_response.
constexpr uint64_t code_invalid_argument = 3, code_not_found = 5;

// The fields of ServerReflectionRequest that ask for something; of several the last one counts.
enum class Asked : uint32_t {
  nothing = 0,
  file_by_filename = 3,
  file_containing_symbol = 4,
  file_containing_extension = 5,
  all_extension_numbers_of_type = 6,
  list_services = 7
};

struct ReflectionRequest {
  std::string_view host;
  Asked asked = Asked::nothing;
  std::string_view name;  // the name asked for; for an extension the type that it extends
};

bool read_utf8_text(ReflectionReader& in, std::string_view& text, ReadProblem& problem) {
  if (!in.read_text(text)) return false;
  if (base::utf8::is_valid(text)) return true;
  problem = ReadProblem::not_utf8;
  return false;
}

// Reads an ExtensionRequest. Its number is skipped, because no message here has extensions.
bool read_extension(std::string_view message, std::string_view& type, ReadProblem& problem) {
  for (ReflectionReader in(message); !in.at_end();) {
    uint32_t key;
    if (!in.read_key(key) ||
        !(key == wire::protobuf_key(1, wire::bytes) ? read_utf8_text(in, type, problem)
                                                    : in.skip(key, unknown_groups_max)))
      return false;
  }
  return true;
}

bool read_asked(ReflectionReader& in, Asked asked, ReflectionRequest& request,
                ReadProblem& problem) {
  if (asked != Asked::file_containing_extension) {
    request.asked = asked;
    return read_utf8_text(in, request.name, problem);
  }
  // An ExtensionRequest that occurs twice is merged.
  if (request.asked != asked) request.name = {};
  request.asked = asked;
  std::string_view extension;
  return in.read_text(extension) && read_extension(extension, request.name, problem);
}

ReadProblem read_reflection(std::string_view message, ReflectionRequest& request) {
  ReadProblem problem = ReadProblem::malformed;
  for (ReflectionReader in(message); !in.at_end();) {
    uint32_t key;
    if (!in.read_key(key)) return problem;
    bool read;
    switch (key) {
      case wire::protobuf_key(1, wire::bytes):
        read = read_utf8_text(in, request.host, problem);
        break;
      case wire::protobuf_key(3, wire::bytes):
      case wire::protobuf_key(4, wire::bytes):
      case wire::protobuf_key(5, wire::bytes):
      case wire::protobuf_key(6, wire::bytes):
      case wire::protobuf_key(7, wire::bytes):
        read = read_asked(in, static_cast<Asked>(key >> 3), request, problem);
        break;
      default:
        read = in.skip(key, unknown_groups_max);
        break;
    }
    if (!read) return problem;
  }
  return ReadProblem::none;
}

void append_field(std::string& to, uint32_t field, std::string_view text) {
  const size_t begin = to.size();
  to.resize(begin + wire::text_bytes(field, text.size()));
  wire::ProtobufWriter(to.data() + begin).text(field, text);
}

void append_number(std::string& to, uint32_t field, uint64_t number) {
  const size_t begin = to.size();
  to.resize(begin + wire::number_bytes(field, number));
  wire::ProtobufWriter(to.data() + begin).number(field, number);
}

// The answer: a field of ServerReflectionResponse.
struct ReflectionAnswer {
  uint32_t field;
  std::string message;
};

ReflectionAnswer error_answer(uint64_t code, std::string_view text) {
  ReflectionAnswer answer{7, {}};
  append_number(answer.message, 1, code);
  append_field(answer.message, 2, text);
  return answer;
}

ReflectionAnswer not_found(std::string_view what, std::string_view name) {
  std::string text(what);
  text += ": ";
  text += name;
  return error_answer(code_not_found, text);
}

// The file, followed by all files that it imports.
ReflectionAnswer file_answer(size_t file) {
  const std::span<const ProtoFile> all = proto_files();
  std::vector<size_t> told{file};
  for (size_t i = 0; i < told.size(); ++i) {
    for (const size_t import : all[told[i]].imports) {
      if (std::find(told.begin(), told.end(), import) == told.end()) told.push_back(import);
    }
  }
  ReflectionAnswer answer{4, {}};
  for (const size_t one : told) append_field(answer.message, 1, all[one].descriptor);
  return answer;
}

ReflectionAnswer services_answer() {
  std::vector<std::string_view> names;
  for (const ProtoFile& file : proto_files())
    names.insert(names.end(), file.services.begin(), file.services.end());
  std::sort(names.begin(), names.end());
  ReflectionAnswer answer{6, {}};
  for (const std::string_view name : names) {
    std::string service;
    append_field(service, 1, name);
    append_field(answer.message, 1, service);
  }
  return answer;
}

// No message here has extensions.
ReflectionAnswer extensions_answer(std::string_view type) {
  for (const ProtoFile& file : proto_files()) {
    if (std::find(file.messages.begin(), file.messages.end(), type) == file.messages.end())
      continue;
    ReflectionAnswer answer{5, {}};
    append_field(answer.message, 1, type);
    return answer;
  }
  return not_found("no such message", type);
}

ReflectionAnswer answer_to(const ReflectionRequest& request) {
  std::optional<size_t> file;
  switch (request.asked) {
    case Asked::file_by_filename:
      file = proto_file_named(request.name);
      return file ? file_answer(*file) : not_found("no such file", request.name);
    case Asked::file_containing_symbol:
      file = proto_file_of_symbol(request.name);
      return file ? file_answer(*file) : not_found("no such symbol", request.name);
    case Asked::file_containing_extension:
      return not_found("no such extension of", request.name);
    case Asked::all_extension_numbers_of_type:
      return extensions_answer(request.name);
    case Asked::list_services:
      return services_answer();
    default:
      return error_answer(code_invalid_argument, "the request asks nothing that is known");
  }
}

}  // namespace

ReadProblem answer_reflection(std::string_view request, base::Buffer& out) {
  ReflectionRequest read;
  if (const ReadProblem problem = read_reflection(request, read); problem != ReadProblem::none)
    return problem;
  const ReflectionAnswer answer = answer_to(read);
  std::string response;
  if (!read.host.empty()) append_field(response, 1, read.host);
  append_field(response, 2, request);
  append_field(response, answer.field, answer.message);
  out.append(response);
  return ReadProblem::none;
}

}  // namespace sluice::envoy
