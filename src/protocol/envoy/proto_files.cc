#include "protocol/envoy/proto_files.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {
namespace table {

// Numbers of FieldDescriptorProto.Type.
enum class FieldType : uint8_t {
  double_number = 1,
  float_number = 2,
  int64 = 3,
  uint64 = 4,
  int32 = 5,
  boolean = 8,
  text = 9,
  message = 11,
  bytes = 12,
  uint32 = 13,
  enumeration = 14
};

struct Field {
  std::string_view name;
  uint32_t number;
  FieldType type;
  // The type of a message or an enumeration: a full name after a dot, else a name in the file's
  // package.
  std::string_view type_name{};
  bool is_repeated = false;
  std::string_view choice{};  // the `oneof` that it belongs to
};

struct Enumeration {
  std::string_view name;
  std::vector<std::string_view> values;  // numbered from 0 on
};

struct Message {
  std::string_view name;
  std::vector<Field> fields;
  std::vector<Message> messages{};
  std::vector<Enumeration> enumerations{};
  bool is_map_entry = false;
};

struct Method {
  std::string_view name, input, output;  // messages of the file
  bool input_streams = false, output_streams = false;
};

struct Service {
  std::string_view name;
  std::vector<Method> methods;
};

struct File {
  std::string_view name, package;
  std::vector<std::string_view> imports;
  std::vector<Message> messages{};
  std::vector<Enumeration> enumerations{};
  std::vector<Service> services{};
};

Field text(std::string_view name, uint32_t number) {
  return {name, number, FieldType::text};
}
Field number(std::string_view name, uint32_t number, FieldType type = FieldType::uint32) {
  return {name, number, type};
}
Field of(std::string_view type_name, std::string_view name, uint32_t number) {
  return {name, number, FieldType::message, type_name};
}
Field one_of(std::string_view type_name, std::string_view name, uint32_t number) {
  return {name, number, FieldType::enumeration, type_name};
}
Field repeated(Field field) {
  field.is_repeated = true;
  return field;
}
Field choice(std::string_view name, Field field) {
  field.choice = name;
  return field;
}

// ---- protobuf's own ----

constexpr std::string_view duration = ".google.protobuf.Duration",
                           timestamp = ".google.protobuf.Timestamp",
                           uint32_value = ".google.protobuf.UInt32Value",
                           uint64_value = ".google.protobuf.UInt64Value",
                           struct_value = ".google.protobuf.Struct";
constexpr std::string_view duration_file = "google/protobuf/duration.proto",
                           timestamp_file = "google/protobuf/timestamp.proto",
                           wrappers_file = "google/protobuf/wrappers.proto",
                           struct_file = "google/protobuf/struct.proto";

File time_file(std::string_view file, std::string_view message) {
  return {
      file,
      "google.protobuf",
      {},
      {{message, {number("seconds", 1, FieldType::int64), number("nanos", 2, FieldType::int32)}}}};
}

File file_of_wrappers() {
  const auto wrapper = [](std::string_view name, FieldType type) {
    return Message{name, {number("value", 1, type)}};
  };
  return {wrappers_file,
          "google.protobuf",
          {},
          {wrapper("DoubleValue", FieldType::double_number),
           wrapper("FloatValue", FieldType::float_number), wrapper("Int64Value", FieldType::int64),
           wrapper("UInt64Value", FieldType::uint64), wrapper("Int32Value", FieldType::int32),
           wrapper("UInt32Value", FieldType::uint32), wrapper("BoolValue", FieldType::boolean),
           wrapper("StringValue", FieldType::text), wrapper("BytesValue", FieldType::bytes)}};
}

File file_of_struct() {
  const auto kind = [](const Field& field) { return choice("kind", field); };
  return {struct_file,
          "google.protobuf",
          {},
          {{"Struct",
            {repeated(of("Struct.FieldsEntry", "fields", 1))},
            {{"FieldsEntry", {text("key", 1), of("Value", "value", 2)}, {}, {}, true}}},
           {"Value",
            {kind(one_of("NullValue", "null_value", 1)),
             kind(number("number_value", 2, FieldType::double_number)),
             kind(text("string_value", 3)), kind(number("bool_value", 4, FieldType::boolean)),
             kind(of("Struct", "struct_value", 5)), kind(of("ListValue", "list_value", 6))}},
           {"ListValue", {repeated(of("Value", "values", 1))}}},
          {{"NullValue", {"NULL_VALUE"}}}};
}

// ---- Envoy's ----

constexpr std::string_view base_file = "envoy/config/core/v3/base.proto",
                           unit_file = "envoy/type/v3/ratelimit_unit.proto",
                           descriptor_file = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";

File file_of_headers() {
  return {base_file,
          "envoy.config.core.v3",
          {},
          {{"HeaderValue",
            {text("key", 1), text("value", 2), number("raw_value", 3, FieldType::bytes)}}}};
}

std::vector<std::string_view> units() {
  return {"UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR"};
}

File file_of_units() {
  return {unit_file, "envoy.type.v3", {}, {}, {{"RateLimitUnit", units()}}};
}

File file_of_descriptors() {
  return {descriptor_file,
          "envoy.extensions.common.ratelimit.v3",
          {unit_file, wrappers_file},
          {{"RateLimitDescriptor",
            {repeated(of("RateLimitDescriptor.Entry", "entries", 1)),
             of("RateLimitDescriptor.RateLimitOverride", "limit", 2),
             of(uint64_value, "hits_addend", 3), number("is_negative_hits", 4, FieldType::boolean)},
            {{"Entry", {text("key", 1), text("value", 2)}},
             {"RateLimitOverride",
              {number("requests_per_unit", 1), one_of(".envoy.type.v3.RateLimitUnit", "unit", 2),
               of(uint32_value, "unit_multiplier", 3)}}}}}};
}

Message rate_limit_response() {
  constexpr std::string_view header = ".envoy.config.core.v3.HeaderValue",
                             code = "RateLimitResponse.Code", quota = "RateLimitResponse.Quota";
  std::vector<std::string_view> response_units = units();
  response_units.push_back("WEEK");
  return {
      "RateLimitResponse",
      {one_of(code, "overall_code", 1),
       repeated(of("RateLimitResponse.DescriptorStatus", "statuses", 2)),
       repeated(of(header, "response_headers_to_add", 3)),
       repeated(of(header, "request_headers_to_add", 4)), number("raw_body", 5, FieldType::bytes),
       of(struct_value, "dynamic_metadata", 6), of(quota, "quota", 7)},
      {{"RateLimit",
        {text("name", 3), number("requests_per_unit", 1),
         one_of("RateLimitResponse.RateLimit.Unit", "unit", 2),
         of(uint32_value, "unit_multiplier", 4)},
        {},
        {{"Unit", response_units}}},
       {"Quota",
        {number("requests", 1), choice("expiration_specifier", of(timestamp, "valid_until", 2)),
         text("id", 3)}},
       {"DescriptorStatus",
        {one_of(code, "code", 1), of("RateLimitResponse.RateLimit", "current_limit", 2),
         number("limit_remaining", 3), of(duration, "duration_until_reset", 4),
         of(quota, "quota", 5)}}},
      {{"Code", {"UNKNOWN", "OK", "OVER_LIMIT"}}}};
}

File file_of_rate_limit_service() {
  return {"envoy/service/ratelimit/v3/rls.proto",
          "envoy.service.ratelimit.v3",
          {base_file, descriptor_file, duration_file, struct_file, timestamp_file, wrappers_file},
          {{"RateLimitRequest",
            {text("domain", 1),
             repeated(
                 of(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor", "descriptors", 2)),
             number("hits_addend", 3)}},
           rate_limit_response()},
          {},
          {{"RateLimitService", {{"ShouldRateLimit", "RateLimitRequest", "RateLimitResponse"}}}}};
}

// ---- gRPC's ----

File file_of_health() {
  return {"grpc/health/v1/health.proto",
          "grpc.health.v1",
          {},
          {{"HealthCheckRequest", {text("service", 1)}},
           {"HealthCheckResponse",
            {one_of("HealthCheckResponse.ServingStatus", "status", 1)},
            {},
            {{"ServingStatus", {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}}}}},
          {},
          {{"Health",
            {{"Check", "HealthCheckRequest", "HealthCheckResponse"},
             {"Watch", "HealthCheckRequest", "HealthCheckResponse", false, true}}}}};
}

// The versions v1 and v1alpha differ only in their names.
File file_of_reflection(std::string_view file, std::string_view package) {
  const auto asked = [](const Field& field) { return choice("message_request", field); };
  const auto answered = [](const Field& field) { return choice("message_response", field); };
  return {
      file,
      package,
      {},
      {{"ServerReflectionRequest",
        {text("host", 1), asked(text("file_by_filename", 3)),
         asked(text("file_containing_symbol", 4)),
         asked(of("ExtensionRequest", "file_containing_extension", 5)),
         asked(text("all_extension_numbers_of_type", 6)), asked(text("list_services", 7))}},
       {"ExtensionRequest",
        {text("containing_type", 1), number("extension_number", 2, FieldType::int32)}},
       {"ServerReflectionResponse",
        {text("valid_host", 1), of("ServerReflectionRequest", "original_request", 2),
         answered(of("FileDescriptorResponse", "file_descriptor_response", 4)),
         answered(of("ExtensionNumberResponse", "all_extension_numbers_response", 5)),
         answered(of("ListServiceResponse", "list_services_response", 6)),
         answered(of("ErrorResponse", "error_response", 7))}},
       {"FileDescriptorResponse", {repeated(number("file_descriptor_proto", 1, FieldType::bytes))}},
       {"ExtensionNumberResponse",
        {text("base_type_name", 1), repeated(number("extension_number", 2, FieldType::int32))}},
       {"ListServiceResponse", {repeated(of("ServiceResponse", "service", 1))}},
       {"ServiceResponse", {text("name", 1)}},
       {"ErrorResponse", {number("error_code", 1, FieldType::int32), text("error_message", 2)}}},
      {},
      {{"ServerReflection",
        {{"ServerReflectionInfo", "ServerReflectionRequest", "ServerReflectionResponse", true,
          true}}}}};
}

// Each file comes after those that it imports.
std::vector<File> all_files() {
  return {
      time_file(duration_file, "Duration"),
      time_file(timestamp_file, "Timestamp"),
      file_of_wrappers(),
      file_of_struct(),
      file_of_headers(),
      file_of_units(),
      file_of_descriptors(),
      file_of_rate_limit_service(),
      file_of_health(),
      file_of_reflection("grpc/reflection/v1/reflection.proto", "grpc.reflection.v1"),
      file_of_reflection("grpc/reflection/v1alpha/reflection.proto", "grpc.reflection.v1alpha")};
}

}  // namespace table

// ---- Descriptors, as descriptor.proto numbers their fields ----

void put_number(std::string& to, uint32_t field, uint64_t value) {
  char room[20];
  wire::ProtobufWriter writer(room);
  writer.number(field, value);
  to.append(room, writer.end());
}

void put_text(std::string& to, uint32_t field, std::string_view value) {
  char room[20];
  wire::ProtobufWriter writer(room);
  writer.open(field, value.size());
  to.append(room, writer.end());
  to += value;
}

// Writes the descriptor of one file.
class FileDescriber {
 public:
  explicit FileDescriber(const table::File& from) : from_(from) { file_.name = from.name; }

  ProtoFile describe(std::span<const ProtoFile> others) {
    std::string& to = file_.descriptor;
    put_text(to, 1, from_.name);
    put_text(to, 2, from_.package);
    for (const std::string_view name : from_.imports) {
      put_text(to, 3, name);
      const auto import = std::find_if(others.begin(), others.end(),
                                       [&](const ProtoFile& other) { return other.name == name; });
      file_.imports.push_back(static_cast<size_t>(import - others.begin()));
    }
    const std::string package(from_.package);
    for (const table::Message& one : from_.messages) put_text(to, 4, message(one, package));
    for (const table::Enumeration& one : from_.enumerations)
      put_text(to, 5, enumeration(one, package));
    for (const table::Service& one : from_.services) put_text(to, 6, service(one, package));
    put_text(to, 12, "proto3");
    std::sort(file_.symbols.begin(), file_.symbols.end());
    return std::move(file_);
  }

 private:
  // Returns the full name of `name` in `scope`, and adds it to the symbols.
  std::string symbol(const std::string& scope, std::string_view name) {
    std::string full = scope + ".";
    full += name;
    file_.symbols.push_back(full);
    return full;
  }

  std::string message(const table::Message& from, const std::string& scope) {
    const std::string full = symbol(scope, from.name);
    file_.messages.push_back(full);
    std::string to;
    put_text(to, 1, from.name);
    std::vector<std::string_view> choices;
    for (const table::Field& one : from.fields) put_text(to, 2, field(one, full, choices));
    for (const table::Message& one : from.messages) put_text(to, 3, message(one, full));
    for (const table::Enumeration& one : from.enumerations) put_text(to, 4, enumeration(one, full));
    if (from.is_map_entry) {
      std::string options;
      put_number(options, 7, 1);
      put_text(to, 7, options);
    }
    for (const std::string_view name : choices) {
      std::string choice;
      put_text(choice, 1, name);
      put_text(to, 8, choice);
      symbol(full, name);
    }
    return to;
  }

  std::string field(const table::Field& from, const std::string& scope,
                    std::vector<std::string_view>& choices) {
    constexpr uint64_t label_optional = 1, label_repeated = 3;
    symbol(scope, from.name);
    std::string to;
    put_text(to, 1, from.name);
    put_number(to, 3, from.number);
    put_number(to, 4, from.is_repeated ? label_repeated : label_optional);
    put_number(to, 5, static_cast<uint64_t>(from.type));
    if (!from.type_name.empty()) put_text(to, 6, full_type(from.type_name));
    if (!from.choice.empty()) {
      const auto known = std::find(choices.begin(), choices.end(), from.choice);
      put_number(to, 9, static_cast<uint64_t>(known - choices.begin()));
      if (known == choices.end()) choices.push_back(from.choice);
    }
    return to;
  }

  // The names of an enumeration's values are in the enumeration's scope, not in the enumeration.
  std::string enumeration(const table::Enumeration& from, const std::string& scope) {
    symbol(scope, from.name);
    std::string to;
    put_text(to, 1, from.name);
    for (size_t i = 0; i < from.values.size(); ++i) {
      symbol(scope, from.values[i]);
      std::string value;
      put_text(value, 1, from.values[i]);
      put_number(value, 2, i);
      put_text(to, 2, value);
    }
    return to;
  }

  std::string service(const table::Service& from, const std::string& scope) {
    const std::string full = symbol(scope, from.name);
    file_.services.push_back(full);
    std::string to;
    put_text(to, 1, from.name);
    for (const table::Method& one : from.methods) {
      symbol(full, one.name);
      std::string method;
      put_text(method, 1, one.name);
      put_text(method, 2, full_type(one.input));
      put_text(method, 3, full_type(one.output));
      if (one.input_streams) put_number(method, 5, 1);
      if (one.output_streams) put_number(method, 6, 1);
      put_text(to, 2, method);
    }
    return to;
  }

  std::string full_type(std::string_view name) const {
    if (name[0] == '.') return std::string(name);
    std::string full = ".";
    full += from_.package;
    full += '.';
    return full += name;
  }

  const table::File& from_;
  ProtoFile file_;
};

std::vector<ProtoFile> described_files() {
  std::vector<ProtoFile> all;
  for (const table::File& one : table::all_files()) all.push_back(FileDescriber(one).describe(all));
  return all;
}

template <class Holds>
std::optional<size_t> first_file_that(Holds holds) {
  const std::span<const ProtoFile> all = proto_files();
  const auto found = std::find_if(all.begin(), all.end(), holds);
  if (found == all.end()) return std::nullopt;
  return static_cast<size_t>(found - all.begin());
}

}  // namespace

std::span<const ProtoFile> proto_files() {
  static const std::vector<ProtoFile> files = described_files();
  return files;
}

std::optional<size_t> proto_file_named(std::string_view name) {
  return first_file_that([=](const ProtoFile& file) { return file.name == name; });
}

std::optional<size_t> proto_file_of_symbol(std::string_view full_name) {
  return first_file_that([=](const ProtoFile& file) {
    return std::binary_search(file.symbols.begin(), file.symbols.end(), full_name);
  });
}

}  // namespace sluice::envoy
