#include "protocol/resp/settings.h"

#include <algorithm>

#include "config/file_reader.h"
#include "config/settings.h"
#include "server/options.h"

namespace sluice::resp {
namespace {

using policy::YamlNode;

template <size_t N>
std::string choices(const std::array<std::string_view, N>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// Its place among the names; their number: it is none of them, which is told.
template <size_t N>
size_t choice(const std::array<std::string_view, N>& names, std::string_view text,
              const base::Diagnostic& place, base::Diagnostics& diagnostics) {
  const auto at = std::find(names.begin(), names.end(), text);
  if (at == names.end())
    config::complain(place, "`" + std::string(text) + "` is not one of " + choices(names),
                     "write one of these", diagnostics);
  return static_cast<size_t>(at - names.begin());
}

}  // namespace

std::unique_ptr<protocol::Settings> RespSettings::clone() const {
  return std::make_unique<RespSettings>(*this);
}

void RespSettings::read(config::FileReader& reader, const YamlNode& section) {
  RespOptions& its = options_.value;
  options_.origin = reader.origin(section);
  const auto number = [&](size_t& to, uint64_t least, uint64_t most) {
    return [&reader, &to, least, most](const std::string& key, const YamlNode& value) {
      if (const auto n = reader.number(key, value, least, most)) to = static_cast<size_t>(*n);
    };
  };
  reader.map(section, "resp",
             {{"dialects",
               [&](const std::string& key, const YamlNode& value) {
                 if (!reader.sequence(key, value, "dialects: [cell, sluice]")) return;
                 its.answers = {};
                 for (YamlNode item = value.first_child(); item; item = item.next()) {
                   const auto text = reader.text(key, item);
                   if (!text) continue;
                   const size_t at =
                       choice(family_names, *text, reader.place(key, item), reader.diagnostics());
                   if (at < its.answers.size()) its.answers[at] = true;
                 }
               }},
              {"inline_limits",
               [&](const std::string& key, const YamlNode& value) {
                 its.inline_limits =
                     reader.truth(key, value, "write `inline_limits: false` to refuse KEY subjects")
                         .value_or(its.inline_limits);
               }},
              {"unmatched",
               [&](const std::string& key, const YamlNode& value) {
                 const auto text = reader.text(key, value);
                 if (!text) return;
                 const size_t at =
                     choice(unmatched_names, *text, reader.place(key, value), reader.diagnostics());
                 if (at < unmatched_names.size()) its.unmatched = static_cast<Unmatched>(at);
               }},
              {"max_waiting", number(its.waiting_max, 0, 1'000'000)},
              {"max_words", number(its.bounds.words, 16, 65'536)},
              {"max_word", number(its.bounds.word_bytes, 64, 1 << 20)}});
}

std::vector<std::pair<std::string, std::string>> RespSettings::lines() const {
  const RespOptions& its = options_.value;
  std::string dialects;
  for (size_t i = 0; i < family_names.size(); ++i)
    if (its.answers[i]) dialects += (dialects.empty() ? "" : ", ") + std::string(family_names[i]);
  return {{"resp: { dialects: [" + dialects +
               "], inline_limits: " + (its.inline_limits ? "true" : "false") +
               ", unmatched: " + std::string(unmatched_names[static_cast<size_t>(its.unmatched)]) +
               ", max_waiting: " + std::to_string(its.waiting_max) +
               ", max_words: " + std::to_string(its.bounds.words) +
               ", max_word: " + std::to_string(its.bounds.word_bytes) + " }",
           options_.origin}};
}

void RespSettings::add_to(server::Options& options, protocol::Protocol self) const {
  auto its = std::make_shared<RespOptions>(options_.value);
  its->clients = std::make_shared<Clients>();  // this server's own
  options.session_options[static_cast<size_t>(self)] = std::move(its);
}

constinit const protocol::SettingsFormat settings_format = {
    .subject = protocol::SettingsFormat::Subject::store,
    .flags = {},
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<RespSettings>();
    },
};

}  // namespace sluice::resp
