#include "protocol/envoy/limits_message.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "base/utf8.h"
#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

using Reader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;
using wire::protobuf_key;

constexpr int groups_max = 100;

enum ConfigField : uint32_t { config_name = 1, config_domain = 2, config_descriptors = 3 };
enum DescriptorField : uint32_t {
  descriptor_key = 1,
  descriptor_value = 2,
  descriptor_limit = 3,
  descriptor_descriptors = 4,
  descriptor_shadow = 5,
  descriptor_detailed = 6,
  descriptor_quota = 7,
  descriptor_metadata = 8
};
enum LimitField : uint32_t {
  limit_unit = 1,
  limit_requests = 2,
  limit_unlimited = 3,
  limit_name = 4,
  limit_replaces = 5
};
enum ReplaceField : uint32_t { replace_name = 1 };

constexpr const char* not_a_message = "proto: cannot parse invalid wire-format data";

// Calls visit(key, reader) for each field; it reads the field and returns true, or returns false
// for one that it does not know, which is passed over. False: the bytes are no message.
template <class Visit>
bool each_field(std::string_view message, Visit&& visit) {
  Reader reader(message);
  uint32_t key = 0;
  while (!reader.at_end()) {
    if (!reader.read_key(key)) return false;
    const std::optional<bool> read = visit(key, reader);
    if (!(read ? *read : reader.skip(key, groups_max))) return false;
  }
  return true;
}

bool read_text(Reader& reader, std::string_view& to) {
  return reader.read_text(to) && base::utf8::is_valid(to);
}

bool read_truth(Reader& reader, bool& to) {
  uint64_t number = 0;
  if (!reader.read_number(number)) return false;
  to = number != 0;
  return true;
}

// ---- metadata: google.protobuf.Struct ----

class StructReader {
 public:
  StructReader(size_t& values, size_t values_max) : values_(values), values_max_(values_max) {}

  // Adds the members, as several messages of one field add up. False: it is no message, or past a
  // bound (`problem`).
  bool read(std::string_view message, MetadataMap& to, size_t depth = 1) {
    std::unordered_map<std::string, size_t> places;
    for (size_t i = 0; i < to.size(); ++i) places.emplace(to[i].first, i);
    return each_field(message, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
      if (key != protobuf_key(1, wire::bytes)) return std::nullopt;
      std::string_view entry;
      return reader.read_text(entry) && read_member(entry, to, places, depth);
    });
  }

  const char* problem() const { return problem_; }

 private:
  bool read_member(std::string_view entry, MetadataMap& to,
                   std::unordered_map<std::string, size_t>& places, size_t depth) {
    std::string_view name, value;
    if (!each_field(entry, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
          if (key == protobuf_key(1, wire::bytes)) return read_text(reader, name);
          if (key == protobuf_key(2, wire::bytes)) return reader.read_text(value);
          return std::nullopt;
        }))
      return false;
    MetadataValue read;
    if (!read_value(value, read, depth)) return false;
    const auto [at, added] = places.emplace(name, to.size());
    if (added)
      to.emplace_back(std::string(name), std::move(read));
    else
      to[at->second].second = std::move(read);
    return true;
  }

  // A value of no kind is null.
  bool read_value(std::string_view message, MetadataValue& to, size_t depth) {
    if (++values_ > values_max_) problem_ = "has too many values of metadata in all";
    if (depth > metadata_depth_max) problem_ = "has metadata that is nested too deep";
    if (*problem_ != '\0') return false;
    return each_field(message, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
      uint64_t number = 0;
      std::string_view text;
      switch (key) {
        case protobuf_key(1, wire::varint):
          to = {};
          return reader.read_number(number);
        case protobuf_key(2, wire::fixed64):
          if (!reader.read_fixed64(number)) return false;
          to = std::bit_cast<double>(number);
          return true;
        case protobuf_key(3, wire::bytes):
          if (!read_text(reader, text)) return false;
          to = std::string(text);
          return true;
        case protobuf_key(4, wire::varint):
          if (!reader.read_number(number)) return false;
          to = number != 0;
          return true;
        case protobuf_key(5, wire::bytes): {
          MetadataMap map;
          if (!reader.read_text(text) || !read(text, map, depth + 1)) return false;
          to = std::move(map);
          return true;
        }
        case protobuf_key(6, wire::bytes): {
          MetadataList list;
          if (!reader.read_text(text) || !read_list(text, list, depth + 1)) return false;
          to = std::move(list);
          return true;
        }
        default:
          return std::nullopt;
      }
    });
  }

  bool read_list(std::string_view message, MetadataList& to, size_t depth) {
    return each_field(message, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
      if (key != protobuf_key(1, wire::bytes)) return std::nullopt;
      std::string_view item;
      return reader.read_text(item) && read_value(item, to.emplace_back(), depth);
    });
  }

  size_t& values_;
  const size_t values_max_;
  const char* problem_ = "";
};

// ---- limits ----

struct Policy {
  uint32_t unit = 0;
  uint32_t requests = 0;
  bool unlimited = false;
  std::string_view name;
  std::vector<std::string_view> replaces;
};

// Repeated messages of one field add up, as protobuf has it.
bool read_policy(std::string_view message, Policy& to) {
  return each_field(message, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
    uint64_t number = 0;
    switch (key) {
      case protobuf_key(limit_unit, wire::varint):
        if (!reader.read_number(number)) return false;
        to.unit = static_cast<uint32_t>(number);
        return true;
      case protobuf_key(limit_requests, wire::varint):
        if (!reader.read_number(number)) return false;
        to.requests = static_cast<uint32_t>(number);
        return true;
      case protobuf_key(limit_unlimited, wire::varint):
        return read_truth(reader, to.unlimited);
      case protobuf_key(limit_name, wire::bytes):
        return read_text(reader, to.name);
      case protobuf_key(limit_replaces, wire::bytes): {
        std::string_view replace, name;
        if (!reader.read_text(replace)) return false;
        const bool sound =
            each_field(replace, [&](uint32_t its, Reader& within) -> std::optional<bool> {
              if (its != protobuf_key(replace_name, wire::bytes)) return std::nullopt;
              return read_text(within, name);
            });
        to.replaces.push_back(name);
        return sound;
      }
      default:
        return std::nullopt;
    }
  });
}

struct Fields {
  std::string_view key, value;
  std::optional<Policy> limit;
  std::vector<std::string_view> descriptors;
  bool shadow = false, detailed = false, quota = false;
  MetadataMap metadata;
};

class MessagesReader {
 public:
  MessagesReader(const LimitsReading& reading, base::Diagnostics& diagnostics)
      : reading_(reading), diagnostics_(diagnostics) {}

  void read(std::string_view message) {
    name_ = std::string(name_of_limits(message).name);
    std::string_view domain, ignored;
    std::vector<std::string_view> descriptors;
    if (!each_field(message, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
          if (key == protobuf_key(config_name, wire::bytes)) return read_text(reader, ignored);
          if (key == protobuf_key(config_domain, wire::bytes)) return read_text(reader, domain);
          if (key == protobuf_key(config_descriptors, wire::bytes))
            return reader.read_text(descriptors.emplace_back());
          return std::nullopt;
        }))
      return fail("", not_a_message);
    if (domain.empty()) fail("", "config file cannot have empty domain");
    file_ = builder_.add_file(name_);
    const uint32_t there = domain.empty() ? absent : builder_.domain(domain);
    if (there != absent && !reading_.merge_domains)
      fail("", "duplicate domain '" + std::string(domain) + "' in config file",
           "put its descriptors into one resource, or set MERGE_DOMAIN_CONFIG=true");
    if (there != absent && reading_.merge_domains) return read_all(descriptors, builder_, there, 0);
    // One that cannot be used is read aside, so that its other errors are reported too.
    LimitSetBuilder aside;
    const bool is_usable = !domain.empty() && there == absent;
    LimitSetBuilder& to = is_usable ? builder_ : aside;
    read_all(descriptors, to, to.add_domain(domain, file_, 0), 0);
  }

  LimitSetBuilder& builder() { return builder_; }

 private:
  void read_all(const std::vector<std::string_view>& messages, LimitSetBuilder& builder,
                uint32_t parent, size_t level) {
    if (messages.empty()) return;
    if (level == levels_max)
      return fail(builder.set().path(parent),
                  "descriptors are nested deeper than " + std::to_string(levels_max) + " levels");
    for (const std::string_view message : messages) {
      if (++descriptors_ > reading_.descriptors_max) {
        if (descriptors_ == reading_.descriptors_max + 1)
          fail(builder.set().path(parent),
               "there are more than " + base::grouped(reading_.descriptors_max) + " descriptors");
        return;
      }
      read_descriptor(message, builder, parent, level);
    }
  }

  void read_descriptor(std::string_view message, LimitSetBuilder& builder, uint32_t parent,
                       size_t level) {
    Fields fields;
    StructReader metadata(metadata_values_, reading_.metadata_values_max);
    const bool sound =
        each_field(message, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
          std::string_view text;
          switch (key) {
            case protobuf_key(descriptor_key, wire::bytes):
              return read_text(reader, fields.key);
            case protobuf_key(descriptor_value, wire::bytes):
              return read_text(reader, fields.value);
            case protobuf_key(descriptor_limit, wire::bytes):
              if (!fields.limit) fields.limit.emplace();
              return reader.read_text(text) && read_policy(text, *fields.limit);
            case protobuf_key(descriptor_descriptors, wire::bytes):
              return reader.read_text(fields.descriptors.emplace_back());
            case protobuf_key(descriptor_shadow, wire::varint):
              return read_truth(reader, fields.shadow);
            case protobuf_key(descriptor_detailed, wire::varint):
              return read_truth(reader, fields.detailed);
            case protobuf_key(descriptor_quota, wire::varint):
              return read_truth(reader, fields.quota);
            case protobuf_key(descriptor_metadata, wire::bytes):
              return reader.read_text(text) && metadata.read(text, fields.metadata);
            default:
              return std::nullopt;
          }
        });
    const std::string above = builder.set().path(parent);
    if (!sound)
      return fail(above, *metadata.problem() != '\0' ? metadata.problem() : not_a_message);
    if (fields.key.empty()) fail(above, "descriptor has empty key");
    std::string composite(fields.key);
    if (!fields.value.empty()) (composite += '_') += fields.value;
    const bool is_twin = !fields.key.empty() && builder.find(parent, composite) != absent;
    if (is_twin)
      fail(above, "duplicate descriptor composite key '" + above + '.' + composite + "'");
    LimitSetBuilder aside;
    const bool is_usable = !fields.key.empty() && !is_twin;
    LimitSetBuilder& to = is_usable ? builder : aside;
    const uint32_t node = to.add(is_usable ? parent : aside.add_domain("", file_, 0), fields.key,
                                 fields.value, file_, 0);
    if (fields.limit) add_limit(fields, to, node, above + '.' + composite);
    read_all(fields.descriptors, to, node, level + 1);
  }

  void add_limit(Fields& fields, LimitSetBuilder& builder, uint32_t node, const std::string& path) {
    const Policy& its = *fields.limit;
    const size_t before = diagnostics_.size();
    const bool has_unit = its.unit > 0 && its.unit <= static_cast<uint32_t>(Unit::week);
    if (its.unlimited && has_unit)
      fail(path, "should not specify rate limit unit when unlimited", "take one of them out");
    if (!its.unlimited && !has_unit)
      fail(path, "invalid rate limit unit '" +
                     (its.unit == 0 ? std::string("UNKNOWN")
                                    : std::to_string(static_cast<int32_t>(its.unit))) +
                     "'");
    Limit limit;
    limit.unlimited = its.unlimited;
    limit.requests_per_unit = its.requests;
    if (has_unit && !its.unlimited) {
      limit.unit = static_cast<Unit>(its.unit);
      limit.window = length_of(limit.unit);
      limit.counts = true;
    }
    limit.shadow_mode = fields.shadow;
    limit.quota_mode = fields.quota;
    limit.detailed_metric = fields.detailed;
    limit.file = file_;
    if (!fields.metadata.empty())
      limit.metadata = std::make_shared<const MetadataMap>(std::move(fields.metadata));
    limit.name = builder.name(its.name);
    for (const std::string_view name : its.replaces) {
      if (name.empty())
        fail(path, "should not have an empty replaces entry");
      else if (name == its.name)
        fail(path, "replaces should not contain name of same descriptor");
      else
        limit.replaces.push_back(builder.name(name));
    }
    std::sort(limit.replaces.begin(), limit.replaces.end());
    limit.replaces.erase(std::unique(limit.replaces.begin(), limit.replaces.end()),
                         limit.replaces.end());
    if (diagnostics_.size() == before) builder.add_limit(node, std::move(limit));
  }

  void fail(std::string path, std::string message, std::string remedy = {}) {
    base::Diagnostic d;
    d.file = name_;
    d.subject = std::move(path);
    d.message = std::move(message);
    d.remedy = std::move(remedy);
    diagnostics_.push_back(std::move(d));
  }

  const LimitsReading& reading_;
  base::Diagnostics& diagnostics_;
  LimitSetBuilder builder_;
  std::string name_;  // of the message that is read
  uint32_t file_ = 0;
  size_t descriptors_ = 0, metadata_values_ = 0;
};

}  // namespace

MessageName name_of_limits(std::string_view message) {
  MessageName found;
  each_field(message, [&](uint32_t key, Reader& reader) -> std::optional<bool> {
    if (key == protobuf_key(config_name, wire::bytes)) return read_text(reader, found.name);
    if (key == protobuf_key(config_domain, wire::bytes)) return read_text(reader, found.domain);
    return std::nullopt;
  });
  return found;
}

std::optional<LimitSet> read_limit_messages(std::span<const std::string> messages,
                                            const LimitsReading& reading,
                                            base::Diagnostics& diagnostics) {
  std::vector<std::pair<MessageName, std::string_view>> ordered;
  for (const std::string& message : messages)
    ordered.emplace_back(name_of_limits(message), message);
  std::ranges::stable_sort(ordered, {}, [](const auto& one) { return one.first; });
  base::Diagnostics told;
  MessagesReader reader(reading, told);
  for (const auto& [name, message] : ordered) reader.read(message);
  const bool usable = told.empty();
  std::move(told.begin(), told.end(), std::back_inserter(diagnostics));
  if (!usable) return std::nullopt;
  return reader.builder().take();
}

}  // namespace sluice::envoy
