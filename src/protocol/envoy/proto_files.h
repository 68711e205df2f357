// The protobuf files of this server's services, in the form that server reflection sends
// (FileDescriptorProto of descriptor.proto): the names, numbers and types of Envoy's rate limit
// service, gRPC's health service and reflection itself, without comments, options and messages that
// they do not use. Made once, at the first call; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::envoy {

struct ProtoFile {
  std::string name;                   // "envoy/service/ratelimit/v3/rls.proto"
  std::string descriptor;             // a FileDescriptorProto
  std::vector<size_t> imports;        // in proto_files, in front of this one
  std::vector<std::string> services;  // their full names
  std::vector<std::string> messages;  // likewise
  // All full names, sorted: of services and methods, messages, their fields and choices,
  // enumerations and their values.
  std::vector<std::string> symbols;
};

// Each file comes after those that it imports.
std::span<const ProtoFile> proto_files();

// The index in proto_files; nothing: no file has that name or symbol.
std::optional<size_t> proto_file_named(std::string_view name);
std::optional<size_t> proto_file_of_symbol(std::string_view full_name);

}  // namespace sluice::envoy
