#include "protocol/envoy/reflection.h"

#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/health/v1/health.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <grpc/reflection/v1alpha/reflection.pb.h>
#include <kuadrant/service/ratelimit/v1/rls.pb.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace sluice::envoy {
namespace {

namespace pb = google::protobuf;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// The codes of error_response.
constexpr int code_invalid_argument = 3, code_not_found = 5;

// The pool of what protoc has made code of: the files of the services, and what they import.
const pb::DescriptorPool& pool() {
  // libprotobuf would write what clients send wrongly to the standard error.
  static pb::LogHandler* const silenced = pb::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  return *pb::DescriptorPool::generated_pool();
}

void answer_not_found(const std::string& what, const std::string& name,
                      ServerReflectionResponse& to) {
  to.mutable_error_response()->set_error_code(code_not_found);
  to.mutable_error_response()->set_error_message(what + ": " + name);
}

// The file, followed by all files that it imports.
void add_files(const pb::FileDescriptor& file, ServerReflectionResponse& to) {
  std::vector<const pb::FileDescriptor*> told{&file};
  for (size_t i = 0; i < told.size(); ++i) {
    pb::FileDescriptorProto described;
    told[i]->CopyTo(&described);
    *to.mutable_file_descriptor_response()->add_file_descriptor_proto() =
        described.SerializeAsString();
    for (int n = 0; n < told[i]->dependency_count(); ++n)
      if (std::ranges::find(told, told[i]->dependency(n)) == told.end())
        told.push_back(told[i]->dependency(n));
  }
}

// The pool also finds packages, which no file contains alone.
const pb::FileDescriptor* file_of_symbol(const std::string& name) {
  const pb::FileDescriptor* const file = pool().FindFileContainingSymbol(name);
  const bool is_package = file != nullptr && (file->package() + '.').starts_with(name + '.');
  return is_package ? nullptr : file;
}

void add_services(ServerReflectionResponse& to) {
  std::set<std::string> names;
  for (const pb::Descriptor* const message :
       {::envoy::service::ratelimit::v3::RateLimitRequest::descriptor(),
        kuadrant::service::ratelimit::v1::ReserveRequest::descriptor(),
        grpc::health::v1::HealthCheckRequest::descriptor(),
        grpc::reflection::v1::ServerReflectionRequest::descriptor(),
        grpc::reflection::v1alpha::ServerReflectionRequest::descriptor()})
    names.insert(message->file()->service(0)->full_name());
  for (const std::string& name : names)
    to.mutable_list_services_response()->add_service()->set_name(name);
}

void answer_to(const ServerReflectionRequest& request, ServerReflectionResponse& to) {
  const pb::FileDescriptor* file = nullptr;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      file = pool().FindFileByName(request.file_by_filename());
      return file ? add_files(*file, to)
                  : answer_not_found("no such file", request.file_by_filename(), to);
    case ServerReflectionRequest::kFileContainingSymbol:
      file = file_of_symbol(request.file_containing_symbol());
      return file ? add_files(*file, to)
                  : answer_not_found("no such symbol", request.file_containing_symbol(), to);
    case ServerReflectionRequest::kFileContainingExtension:
      return answer_not_found("no such extension of",
                              request.file_containing_extension().containing_type(), to);
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& type = request.all_extension_numbers_of_type();
      if (pool().FindMessageTypeByName(type) == nullptr)
        return answer_not_found("no such message", type, to);
      return to.mutable_all_extension_numbers_response()->set_base_type_name(type);
    }
    case ServerReflectionRequest::kListServices:
      return add_services(to);
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  to.mutable_error_response()->set_error_code(code_invalid_argument);
  to.mutable_error_response()->set_error_message("the request asks nothing that is known");
}

}  // namespace

ReadProblem answer_reflection(std::string_view request, base::Buffer& out) {
  static_cast<void>(pool());
  ServerReflectionResponse response;
  ServerReflectionRequest& read = *response.mutable_original_request();
  if (!read.ParseFromArray(request.data(), static_cast<int>(request.size())))
    return ReadProblem::malformed;
  response.set_valid_host(read.host());
  answer_to(read, response);
  out.append(response.SerializeAsString());
  return ReadProblem::none;
}

}  // namespace sluice::envoy
