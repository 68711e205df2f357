// Limits in messages of a control plane, against the reader of files: the same limits, as text and
// as messages of protoc's classes, are the same set.
#include "protocol/envoy/limits_message.h"

#include <gtest/gtest.h>
#include <rls_conf.pb.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/envoy/limits_file.h"
#include "tests/support/dice.h"

namespace sluice::envoy::limits_message_test {
namespace {

using ratelimit::config::ratelimit::v3::RateLimitConfig;
using ratelimit::config::ratelimit::v3::RateLimitDescriptor;
using ratelimit::config::ratelimit::v3::RateLimitPolicy;
using tests::Dice;

struct Read {
  base::Diagnostics diagnostics;
  std::optional<LimitSet> set;

  explicit Read(const std::vector<std::string>& messages, const LimitsReading& reading = {})
      : set(read_limit_messages(messages, reading, diagnostics)) {}

  std::string said() const {
    std::string text;
    for (const auto& d : diagnostics)
      text += d.file + ": " + d.message + (d.subject.empty() ? "" : " at " + d.subject) + '\n';
    return text;
  }
};

// ---- random limits, sound and not ----

std::string some_key(Dice& dice) {
  static constexpr const char* keys[] = {"k", "a", "k_v", "b*", "to number", "\xC3\xA9", "x:y"};
  return dice(60) == 0 ? "" : keys[dice(std::size(keys))];
}
std::string some_value(Dice& dice) {
  static constexpr const char* values[] = {"", "", "v", "w", "v*", "1.2.3.4", "*"};
  return values[dice(std::size(values))];
}

google::protobuf::Value some_metadata(Dice& dice, int depth) {
  google::protobuf::Value value;
  switch (dice(depth > 3 ? 4 : 6)) {
    case 0:
      value.set_null_value(google::protobuf::NULL_VALUE);
      break;
    case 1:
      value.set_bool_value(dice(2) == 0);
      break;
    case 2:
      value.set_number_value(dice(2) == 0 ? dice(1000) : dice(1000) / 8.0);
      break;
    case 3:
      value.set_string_value(some_value(dice));
      break;
    case 4:
      for (int i = dice(3); i > 0; --i)
        *value.mutable_list_value()->add_values() = some_metadata(dice, depth + 1);
      value.mutable_list_value();
      break;
    default:
      for (int i = dice(3); i > 0; --i)
        (*value.mutable_struct_value()->mutable_fields())["m" + std::to_string(dice(3))] =
            some_metadata(dice, depth + 1);
      value.mutable_struct_value();
  }
  return value;
}

void fill(RateLimitPolicy& policy, Dice& dice) {
  policy.set_unlimited(dice(8) == 0);
  const bool right = dice(40) != 0;
  if (policy.unlimited() != right)
    policy.set_unit(ratelimit::config::ratelimit::v3::RateLimitUnit(1 + dice(7)));
  policy.set_requests_per_unit(dice(3) == 0 ? 0 : dice(uint32_t{UINT32_MAX}));
  if (dice(3) == 0) policy.set_name("n" + std::to_string(dice(3)));
  if (dice(6) == 0)
    for (int i = 1 + dice(2); i > 0; --i)
      policy.add_replaces()->set_name(dice(8) == 0 ? "" : "n" + std::to_string(dice(4)));
}

void fill(RateLimitDescriptor& descriptor, Dice& dice, int level) {
  descriptor.set_key(some_key(dice));
  descriptor.set_value(some_value(dice));
  if (dice(3) != 0) fill(*descriptor.mutable_rate_limit(), dice);
  descriptor.set_shadow_mode(dice(4) == 0);
  descriptor.set_quota_mode(dice(4) == 0);
  descriptor.set_detailed_metric(dice(4) == 0);
  if (dice(5) == 0)
    for (int i = 1 + dice(2); i > 0; --i)
      (*descriptor.mutable_metadata()->mutable_fields())["k" + std::to_string(dice(3))] =
          some_metadata(dice, 1);
  if (level < 4)
    for (int i = dice(3); i > 0; --i) fill(*descriptor.add_descriptors(), dice, level + 1);
}

RateLimitConfig some_config(Dice& dice, int number) {
  RateLimitConfig config;
  config.set_name("r" + std::to_string(number));
  config.set_domain(dice(40) == 0 ? "" : "d" + std::to_string(dice(12) == 0 ? 0 : number));
  for (int i = dice(4); i > 0; --i) fill(*config.add_descriptors(), dice, 0);
  return config;
}

// ---- the same as a file ----

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) (c == '"' || c == '\\' ? out += '\\' : out) += c;
  return out + '"';
}

void write(const google::protobuf::Value& value, std::ostream& out) {
  using Kind = google::protobuf::Value::KindCase;
  const char* separator = "";
  switch (value.kind_case()) {
    case Kind::kBoolValue:
      out << (value.bool_value() ? "true" : "false");
      break;
    case Kind::kNumberValue:
      out << value.number_value();
      break;
    case Kind::kStringValue:
      out << quoted(value.string_value());
      break;
    case Kind::kListValue:
      out << '[';
      for (const auto& item : value.list_value().values()) {
        out << separator;
        write(item, out);
        separator = ", ";
      }
      out << ']';
      break;
    case Kind::kStructValue:
      out << '{';
      for (const auto& [key, item] : value.struct_value().fields()) {
        out << separator << quoted(key) << ": ";
        write(item, out);
        separator = ", ";
      }
      out << '}';
      break;
    default:
      out << "null";
  }
}

void write(const RateLimitDescriptor& descriptor, std::ostream& out, const std::string& indent) {
  out << indent << "- key: " << quoted(descriptor.key()) << '\n';
  const std::string in = indent + "  ";
  if (!descriptor.value().empty()) out << in << "value: " << quoted(descriptor.value()) << '\n';
  out << in << "shadow_mode: " << (descriptor.shadow_mode() ? "true" : "false") << '\n'
      << in << "quota_mode: " << (descriptor.quota_mode() ? "true" : "false") << '\n'
      << in << "detailed_metric: " << (descriptor.detailed_metric() ? "true" : "false") << '\n';
  if (descriptor.has_metadata()) {
    google::protobuf::Value map;
    *map.mutable_struct_value() = descriptor.metadata();
    out << in << "metadata: ";
    write(map, out);
    out << '\n';
  }
  if (descriptor.has_rate_limit()) {
    const RateLimitPolicy& its = descriptor.rate_limit();
    static constexpr const char* units[] = {"",    "second", "minute", "hour",
                                            "day", "month",  "year",   "week"};
    out << in << "rate_limit:\n"
        << in << "  requests_per_unit: " << its.requests_per_unit() << '\n';
    if (its.unit() != 0) out << in << "  unit: " << units[its.unit()] << '\n';
    if (its.unlimited()) out << in << "  unlimited: true\n";
    if (!its.name().empty()) out << in << "  name: " << its.name() << '\n';
    if (its.replaces_size() > 0) out << in << "  replaces:\n";
    for (const auto& one : its.replaces())
      out << in << "    - name: " << quoted(one.name()) << '\n';
  }
  if (descriptor.descriptors_size() == 0) return;
  out << in << "descriptors:\n";
  for (const auto& one : descriptor.descriptors()) write(one, out, in + "  ");
}

std::string file_of(const RateLimitConfig& config) {
  std::ostringstream out;
  out.precision(17);
  out << "domain: " << quoted(config.domain()) << '\n';
  if (config.descriptors_size() > 0) out << "descriptors:\n";
  for (const auto& one : config.descriptors()) write(one, out, "  ");
  return out.str();
}

// Members in the order of their keys: a map of protobuf has none.
MetadataValue sorted(const MetadataValue& value) {
  if (const auto* const list = std::get_if<MetadataList>(&value.data)) {
    MetadataList to;
    for (const MetadataValue& item : *list) to.push_back(sorted(item));
    return to;
  }
  const auto* const map = std::get_if<MetadataMap>(&value.data);
  if (map == nullptr) return value;
  MetadataMap to;
  for (const auto& [key, its] : *map) to.emplace_back(key, sorted(its));
  std::ranges::sort(to, {}, &MetadataMap::value_type::first);
  return to;
}

void expect_same(const LimitSet& a, const LimitSet& b) {
  EXPECT_EQ(a.rlconfig(), b.rlconfig());
  ASSERT_EQ(a.nodes().size(), b.nodes().size());
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    EXPECT_EQ(a.nodes()[i].composite, b.nodes()[i].composite);
    EXPECT_EQ(a.nodes()[i].key(), b.nodes()[i].key());
    EXPECT_EQ(a.nodes()[i].parent, b.nodes()[i].parent);
    EXPECT_EQ(a.nodes()[i].limit, b.nodes()[i].limit);
    EXPECT_EQ(a.nodes()[i].patterns, b.nodes()[i].patterns);
  }
  ASSERT_EQ(a.limits().size(), b.limits().size());
  for (size_t i = 0; i < a.limits().size(); ++i) {
    const Limit &x = a.limits()[i], &y = b.limits()[i];
    EXPECT_EQ(x.window, y.window);
    EXPECT_EQ(x.counts, y.counts);
    EXPECT_EQ(x.unlimited, y.unlimited);
    EXPECT_EQ(x.extended, y.extended);
    EXPECT_EQ(x.algorithm, y.algorithm);
    EXPECT_EQ(x.detailed_metric, y.detailed_metric);
    EXPECT_EQ(a.name(x.name), b.name(y.name));
    EXPECT_EQ(x.metadata == nullptr, y.metadata == nullptr);
    if (x.metadata && y.metadata) {
      EXPECT_EQ(sorted(*x.metadata), sorted(*y.metadata));
    }
    for (uint32_t other = 0; other < a.limits().size(); ++other)
      EXPECT_EQ(a.replaces(static_cast<uint32_t>(i), other),
                b.replaces(static_cast<uint32_t>(i), other));
  }
}

TEST(LimitsMessage, IsReadAsTheFileWithTheSameLimits) {
  Dice dice(7);
  int sound = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> messages, files;
    const bool merges = dice(2) == 0;
    for (int i = 0, count = 1 + dice(3); i < count; ++i) {
      const RateLimitConfig config = some_config(dice, i);
      messages.push_back(config.SerializeAsString());
      files.push_back(file_of(config));
    }
    std::vector<LimitsText> texts;
    for (size_t i = 0; i < files.size(); ++i)
      texts.push_back({i == 0 ? "r0" : i == 1 ? "r1" : "r2", files[i]});
    LimitsReading reading;
    reading.merge_domains = merges;
    base::Diagnostics told;
    const auto as_files = read_limits(texts, reading, told);
    // Their order does not count.
    std::rotate(messages.begin(), messages.begin() + dice(static_cast<int>(messages.size())),
                messages.end());
    const Read read(messages, reading);
    std::string all;
    for (const auto& d : told) all += to_string(d) + '\n';
    ASSERT_EQ(read.set.has_value(), as_files.has_value()) << files[0] << read.said() << all;
    ++(read.set ? sound : refused);
    if (!read.set) continue;
    expect_same(*read.set, *as_files);
    if (HasFailure()) FAIL() << round << '\n' << files[0];
  }
  EXPECT_GT(sound, 1000);
  EXPECT_GT(refused, 300);
}

std::string config_of(const std::string& name, const std::string& domain,
                      const std::function<void(RateLimitConfig&)>& make = {}) {
  RateLimitConfig config;
  config.set_name(name);
  config.set_domain(domain);
  if (make) make(config);
  return config.SerializeAsString();
}

TEST(LimitsMessage, TellsEveryErrorOfEveryMessageWithItsPath) {
  const auto bad = [](RateLimitConfig& config) {
    auto& first = *config.add_descriptors();
    first.set_key("k");
    first.mutable_rate_limit()->set_requests_per_unit(5);
    auto& deep = *first.add_descriptors();
    deep.mutable_rate_limit()->set_unit(
        static_cast<ratelimit::config::ratelimit::v3::RateLimitUnit>(9));
  };
  const Read read({config_of("b", "x", bad), config_of("a", "", {}), config_of("c", "x", {})});
  EXPECT_FALSE(read.set);
  EXPECT_EQ(read.said(),
            "a: config file cannot have empty domain\n"
            "b: invalid rate limit unit 'UNKNOWN' at x.k\n"
            "b: descriptor has empty key at x.k\n"
            "b: invalid rate limit unit '9' at x.k.\n"
            "c: duplicate domain 'x' in config file\n");
}

TEST(LimitsMessage, RefusesTextsThatAreNoUtf8AndBytesThatAreNoMessage) {
  EXPECT_EQ(Read({"\x12\x01\xFF"}).said(), ": proto: cannot parse invalid wire-format data\n");
  EXPECT_EQ(Read({std::string("\x12\x05"
                              "a",
                              3)})
                .said(),
            ": proto: cannot parse invalid wire-format data\n");
  // Unknown fields, groups too, are passed over.
  EXPECT_TRUE(Read({std::string("\x12\x01"
                                "d"
                                "\x9B\x06\x08\x01\x9C\x06",
                                9)})
                  .set);
}

TEST(LimitsMessage, HasBounds) {
  const auto deep = [](size_t levels) {
    return config_of("r", "d", [levels](RateLimitConfig& config) {
      auto* at = config.add_descriptors();
      at->set_key("k");
      for (size_t i = 1; i < levels; ++i) {
        at = at->add_descriptors();
        at->set_key("k");
      }
    });
  };
  EXPECT_TRUE(Read({deep(levels_max)}).set);
  EXPECT_NE(Read({deep(levels_max + 1)}).said().find("nested deeper than 32 levels"),
            std::string::npos);
  EXPECT_NE(Read({deep(10'000)}).said().find("nested deeper than 32 levels"), std::string::npos);
  LimitsReading few;
  few.descriptors_max = 3;
  const auto wide = [](int count) {
    return config_of("r", "d", [count](RateLimitConfig& config) {
      for (int i = 0; i < count; ++i) config.add_descriptors()->set_key("k" + std::to_string(i));
    });
  };
  EXPECT_TRUE(Read({wide(3)}, few).set);
  EXPECT_EQ(Read({wide(5)}, few).said(), "r: there are more than 3 descriptors at d\n");
  LimitsReading little;
  little.metadata_values_max = 2;
  const auto with_metadata = [](int values) {
    return config_of("r", "d", [values](RateLimitConfig& config) {
      auto& one = *config.add_descriptors();
      one.set_key("k");
      one.mutable_rate_limit()->set_unit(ratelimit::config::ratelimit::v3::DAY);
      for (int i = 0; i < values; ++i)
        (*one.mutable_metadata()->mutable_fields())["m" + std::to_string(i)].set_bool_value(true);
    });
  };
  EXPECT_TRUE(Read({with_metadata(2)}, little).set);
  EXPECT_NE(Read({with_metadata(3)}, little).said().find("too many values of metadata"),
            std::string::npos);
}

// A message whose fields are cut, repeated or of other types is never read past its end, and is
// read as protoc's classes read it, as far as it is one.
TEST(LimitsMessage, AnyBytesAreAMessageOrNone) {
  Dice dice(3);
  int messages = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = some_config(dice, 0).SerializeAsString();
    for (int i = dice(4); i > 0 && !bytes.empty(); --i)
      bytes[dice(bytes.size())] = static_cast<char>(dice(256));
    if (dice(4) == 0) bytes.resize(dice(bytes.size() + 1));
    RateLimitConfig config;
    const bool is_message = config.ParseFromString(bytes);
    const Read read({bytes});
    const bool parsed = read.said().find("cannot parse") == std::string::npos;
    // protoc's classes take texts that are no UTF-8 with a warning alone.
    if (!is_message) {
      EXPECT_FALSE(read.set) << round;
    } else if (parsed) {
      ++messages;
      EXPECT_EQ(name_of_limits(bytes).name, config.name());
      EXPECT_EQ(name_of_limits(bytes).domain, config.domain());
    }
  }
  EXPECT_GT(messages, 5000);
}

}  // namespace
}  // namespace sluice::envoy::limits_message_test
