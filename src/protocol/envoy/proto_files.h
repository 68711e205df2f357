// The protobuf files that describe what this server can be called for, as server reflection hands
// them out (descriptor.proto's FileDescriptorProto): names, numbers and types of what Envoy's rate
// limit service, gRPC's health service and reflection itself say, without comments, options and
// messages that are none of theirs. Made once, at the first call; any thread.
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
  // Full names of all that has one, sorted: services and methods, messages, their fields and
  // choices, enumerations and their values.
  std::vector<std::string> symbols;
};

// A file is behind those that it imports.
std::span<const ProtoFile> proto_files();

// In proto_files; nothing: there is none.
std::optional<size_t> proto_file_named(std::string_view name);
std::optional<size_t> proto_file_of_symbol(std::string_view full_name);

}  // namespace sluice::envoy
