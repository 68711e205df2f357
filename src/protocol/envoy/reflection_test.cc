// gRPC's server reflection: its answers, and the files in them as a client reads them.
#include "protocol/envoy/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/envoy/proto_test.h"
#include "tests/support/dice.h"

namespace sluice::envoy::reflection_test {
namespace {

namespace pb = google::protobuf;
using tests::Dice;

std::string sized(char key, std::string_view text) {
  return std::string{key, static_cast<char>(text.size())} + std::string(text);
}

// A reflection request with the text `name` in its field `field`.
std::string asking(int field, std::string_view name) {
  return sized(static_cast<char>(field << 3 | 2), name);
}

std::string answer_to(std::string_view request) {
  base::Buffer out;
  EXPECT_EQ(answer_reflection(request, out), ReadProblem::none);
  return std::string(out.view());
}

constexpr const char* rls = "envoy/service/ratelimit/v3/rls.proto";
constexpr const char* kuadrant_rls = "kuadrant/service/ratelimit/v1/rls.proto";

// All files, as a client has them after it asked for each service.
class Pool {
 public:
  Pool() {
    for (const char* name :
         {rls, kuadrant_rls, "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto",
          "grpc/reflection/v1alpha/reflection.proto"}) {
      grpc::reflection::v1::ServerReflectionResponse answer;
      EXPECT_TRUE(answer.ParseFromString(answer_to(asking(3, name))));
      const auto& files = answer.file_descriptor_response().file_descriptor_proto();
      // Each file comes before those that it imports.
      for (auto file = files.rbegin(); file != files.rend(); ++file) {
        pb::FileDescriptorProto proto;
        EXPECT_TRUE(proto.ParseFromString(*file)) << name;
        EXPECT_NE(pool_.BuildFileCollectingErrors(proto, &errors_), nullptr) << proto.name();
      }
    }
  }
  const pb::DescriptorPool& operator*() const { return pool_; }
  const pb::DescriptorPool* operator->() const { return &pool_; }

  std::unique_ptr<pb::Message> message(const std::string& type) {
    const pb::Descriptor* const descriptor = pool_.FindMessageTypeByName(type);
    if (descriptor == nullptr) throw std::runtime_error("no message " + type);
    return std::unique_ptr<pb::Message>(factory_.GetPrototype(descriptor)->New());
  }
  std::unique_ptr<pb::Message> parsed(const std::string& type, const std::string& bytes) {
    auto made = message(type);
    if (!made->ParseFromString(bytes)) throw std::runtime_error("not a " + type);
    EXPECT_TRUE(made->GetReflection()->GetUnknownFields(*made).empty());
    return made;
  }

 private:
  struct Errors : pb::DescriptorPool::ErrorCollector {
    void AddError(const std::string& file, const std::string& element, const pb::Message*,
                  ErrorLocation, const std::string& text) override {
      ADD_FAILURE() << file << ": " << element << ": " << text;
    }
  };
  Errors errors_;
  pb::DescriptorPool pool_;
  pb::DynamicMessageFactory factory_;
};

std::string text_of(const pb::Message& message, const std::string& field) {
  return message.GetReflection()->GetString(message,
                                            message.GetDescriptor()->FindFieldByName(field));
}
const pb::Message& message_of(const pb::Message& message, const std::string& field) {
  return message.GetReflection()->GetMessage(message,
                                             message.GetDescriptor()->FindFieldByName(field));
}
int number_of_error(const pb::Message& error) {
  return error.GetReflection()->GetInt32(error,
                                         error.GetDescriptor()->FindFieldByName("error_code"));
}

// A reflection response, as libprotobuf reads it.
struct Response {
  explicit Response(Pool& pool, const std::string& bytes)
      : message(pool.parsed("grpc.reflection.v1.ServerReflectionResponse", bytes)) {}

  std::string kind() const {
    const pb::OneofDescriptor* const choice =
        message->GetDescriptor()->FindOneofByName("message_response");
    const pb::FieldDescriptor* const field =
        message->GetReflection()->GetOneofFieldDescriptor(*message, choice);
    return field == nullptr ? "" : field->name();
  }
  int error() const { return number_of_error(message_of(*message, "error_response")); }
  // The names of the files in the response.
  std::vector<std::string> files() const {
    const pb::Message& answer = message_of(*message, "file_descriptor_response");
    const pb::FieldDescriptor* const field =
        answer.GetDescriptor()->FindFieldByName("file_descriptor_proto");
    std::vector<std::string> names;
    for (int i = 0; i < answer.GetReflection()->FieldSize(answer, field); ++i) {
      pb::FileDescriptorProto file;
      EXPECT_TRUE(
          file.ParseFromString(answer.GetReflection()->GetRepeatedString(answer, field, i)));
      names.push_back(file.name());
    }
    return names;
  }

  std::unique_ptr<pb::Message> message;
};

// ---- The files ----

TEST(EnvoyReflectionFiles, MakeAPoolOfTheServicesThatAreServed) {
  Pool pool;
  const pb::ServiceDescriptor* const service =
      pool->FindServiceByName("envoy.service.ratelimit.v3.RateLimitService");
  ASSERT_NE(service, nullptr);
  EXPECT_EQ(service->file()->name(), rls);
  const pb::MethodDescriptor* const method = service->FindMethodByName("ShouldRateLimit");
  ASSERT_NE(method, nullptr);
  EXPECT_EQ(method->input_type()->full_name(), "envoy.service.ratelimit.v3.RateLimitRequest");
  EXPECT_EQ(method->output_type()->full_name(), "envoy.service.ratelimit.v3.RateLimitResponse");
  EXPECT_FALSE(method->client_streaming() || method->server_streaming());
  const pb::ServiceDescriptor* const kuadrant =
      pool->FindServiceByName("kuadrant.service.ratelimit.v1.RateLimitService");
  ASSERT_NE(kuadrant, nullptr);
  ASSERT_EQ(kuadrant->method_count(), 4);
  for (const char* name : {"CheckRateLimit", "Report"}) {
    EXPECT_EQ(kuadrant->FindMethodByName(name)->input_type(), method->input_type());
    EXPECT_EQ(kuadrant->FindMethodByName(name)->output_type(), method->output_type());
  }
  const pb::Descriptor* const commit = kuadrant->FindMethodByName("Commit")->input_type();
  EXPECT_EQ(commit->FindFieldByNumber(3)->name(), "reservation_id");
  EXPECT_EQ(commit->FindFieldByNumber(4)->name(), "actual_amount");
  const pb::ServiceDescriptor* const health = pool->FindServiceByName("grpc.health.v1.Health");
  ASSERT_NE(health, nullptr);
  EXPECT_FALSE(health->FindMethodByName("Check")->server_streaming());
  EXPECT_TRUE(health->FindMethodByName("Watch")->server_streaming());
  EXPECT_FALSE(health->FindMethodByName("Watch")->client_streaming());
  for (const std::string package : {"grpc.reflection.v1.", "grpc.reflection.v1alpha."}) {
    const pb::ServiceDescriptor* const reflection =
        pool->FindServiceByName(package + "ServerReflection");
    ASSERT_NE(reflection, nullptr);
    const pb::MethodDescriptor* const info = reflection->FindMethodByName("ServerReflectionInfo");
    ASSERT_NE(info, nullptr);
    EXPECT_TRUE(info->client_streaming() && info->server_streaming());
    EXPECT_EQ(info->input_type()->full_name(), package + "ServerReflectionRequest");
    EXPECT_EQ(info->output_type()->full_name(), package + "ServerReflectionResponse");
  }
}

TEST(EnvoyReflectionFiles, HaveTheNamesOfTheOriginals) {
  Pool pool;
  EXPECT_EQ(pool->FindMessageTypeByName("envoy.config.core.v3.HeaderValue")->file()->name(),
            "envoy/config/core/v3/base.proto");
  EXPECT_EQ(pool->FindEnumTypeByName("envoy.type.v3.RateLimitUnit")->file()->name(),
            "envoy/type/v3/ratelimit_unit.proto");
  EXPECT_EQ(pool->FindMessageTypeByName("envoy.extensions.common.ratelimit.v3.RateLimitDescriptor")
                ->file()
                ->name(),
            "envoy/extensions/common/ratelimit/v3/ratelimit.proto");
}

TEST(EnvoyReflectionFiles, ReadRequestsAndWriteThemAgain) {
  Pool pool;
  Dice dice(5);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = judge::some_request(dice).SerializeAsString();
    const auto request = pool.parsed("envoy.service.ratelimit.v3.RateLimitRequest", bytes);
    proto::RateLimitRequest again;
    ASSERT_TRUE(again.ParseFromString(request->SerializeAsString()));
    EXPECT_EQ(again.SerializeAsString(), bytes);
  }
}

// ---- Answers ----

TEST(EnvoyReflection, ListsTheServicesInOrder) {
  const std::string request = asking(7, "*");
  std::string list;
  for (const char* name :
       {"envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
        "kuadrant.service.ratelimit.v1.RateLimitService"})
    list += sized('\x0A', sized('\x0A', name));
  ASSERT_GT(list.size(), 127u);
  const std::string length{static_cast<char>(list.size() % 128 + 128),
                           static_cast<char>(list.size() / 128)};
  EXPECT_EQ(answer_to(request), sized('\x12', request) + "\x32" + length + list);
}

TEST(EnvoyReflection, ReturnsAFileWithItsImports) {
  Pool pool;
  const std::vector<std::string> expected{rls,
                                          "envoy/config/core/v3/base.proto",
                                          "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
                                          "google/protobuf/duration.proto",
                                          "google/protobuf/struct.proto",
                                          "google/protobuf/timestamp.proto",
                                          "google/protobuf/wrappers.proto",
                                          "envoy/type/v3/ratelimit_unit.proto"};
  for (const std::string& request :
       {asking(3, rls), asking(4, "envoy.service.ratelimit.v3.RateLimitService"),
        asking(4, "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit"),
        asking(4, "envoy.service.ratelimit.v3.RateLimitRequest"),
        asking(4, "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.WEEK"),
        asking(4, "envoy.service.ratelimit.v3.RateLimitResponse.Quota.expiration_specifier"),
        asking(4, "envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus.code")}) {
    const Response response(pool, answer_to(request));
    EXPECT_EQ(response.kind(), "file_descriptor_response");
    EXPECT_EQ(response.files(), expected);
    EXPECT_EQ(message_of(*response.message, "original_request").SerializeAsString(), request);
    EXPECT_EQ(text_of(*response.message, "valid_host"), "");
  }
  EXPECT_EQ(Response(pool, answer_to(asking(3, "google/protobuf/struct.proto"))).files(),
            std::vector<std::string>{"google/protobuf/struct.proto"});
  EXPECT_EQ(Response(pool, answer_to(asking(4, "grpc.health.v1.Health.Watch"))).files(),
            std::vector<std::string>{"grpc/health/v1/health.proto"});
  EXPECT_EQ(Response(pool, answer_to(asking(4, "grpc.reflection.v1alpha.ErrorResponse"))).files(),
            std::vector<std::string>{"grpc/reflection/v1alpha/reflection.proto"});
}

TEST(EnvoyReflection, ReportsUnknownNames) {
  Pool pool;
  const auto error = [&](const std::string& request) {
    const Response response(pool, answer_to(request));
    EXPECT_EQ(response.kind(), "error_response");
    EXPECT_NE(text_of(message_of(*response.message, "error_response"), "error_message"), "");
    return response.error();
  };
  EXPECT_EQ(error(asking(3, "envoy/service/ratelimit/v2/rls.proto")), 5);
  EXPECT_EQ(error(asking(3, "")), 5);
  for (const char* symbol :
       {"", "envoy", "envoy.service.ratelimit.v3", "RateLimitService", ".grpc.health.v1.Health",
        "grpc.health.v1.Health.List", "grpc.health.v1.HealthCheckResponse.ServingStatus.SERVING"})
    EXPECT_EQ(error(asking(4, symbol)), 5) << symbol;
  EXPECT_EQ(error(asking(5, asking(1, "grpc.health.v1.HealthCheckRequest") + "\x10\x64")), 5);
  EXPECT_EQ(error(asking(6, "no.such.Message")), 5);
  EXPECT_EQ(error(asking(6, "grpc.health.v1.Health")), 5);  // a service, not a message
  EXPECT_EQ(error(""), 3);
  EXPECT_EQ(error(asking(1, "host")), 3);
}

TEST(EnvoyReflection, ReportsNoExtensions) {
  Pool pool;
  const Response response(pool, answer_to(asking(6, "google.protobuf.Struct.FieldsEntry")));
  EXPECT_EQ(response.kind(), "all_extension_numbers_response");
  const pb::Message& numbers = message_of(*response.message, "all_extension_numbers_response");
  EXPECT_EQ(text_of(numbers, "base_type_name"), "google.protobuf.Struct.FieldsEntry");
  EXPECT_EQ(numbers.GetReflection()->FieldSize(
                numbers, numbers.GetDescriptor()->FindFieldByName("extension_number")),
            0);
}

TEST(EnvoyReflection, AnswersTheLastOfSeveralQuestions) {
  Pool pool;
  const std::string health = "grpc/health/v1/health.proto";
  const std::string request = asking(1, "first") + asking(7, "") + asking(3, "other") +
                              asking(3, health) + asking(1, "last") + "\x50\x07";
  const Response response(pool, answer_to(request));
  EXPECT_EQ(response.files(), std::vector<std::string>{health});
  EXPECT_EQ(text_of(*response.message, "valid_host"), "last");
  EXPECT_EQ(Response(pool, answer_to(asking(3, health) + asking(7, ""))).kind(),
            "list_services_response");
  // An extension's two fields that come in separate messages are merged.
  const Response extension(pool, answer_to(asking(5, asking(1, "first")) + asking(5, "\x10\x01")));
  EXPECT_NE(
      text_of(message_of(*extension.message, "error_response"), "error_message").find("first"),
      std::string::npos);
}

TEST(EnvoyReflection, RejectsMalformedRequests) {
  base::Buffer out;
  EXPECT_EQ(answer_reflection("\x1A\x05"
                              "cut",
                              out),
            ReadProblem::malformed);
  EXPECT_EQ(answer_reflection("\x2A\x02\x0A\x05", out), ReadProblem::malformed);
  EXPECT_EQ(answer_reflection(std::string_view("\0", 1), out), ReadProblem::malformed);
  for (const int field : {1, 3, 4, 6, 7})
    EXPECT_EQ(answer_reflection(asking(field, "\xFF"), out), ReadProblem::malformed) << field;
  EXPECT_EQ(answer_reflection(asking(5, asking(1, "\xFF")), out), ReadProblem::malformed);
  EXPECT_EQ(out.size(), 0u);
}

}  // namespace
}  // namespace sluice::envoy::reflection_test
