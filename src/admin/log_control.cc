#include "admin/log_control.h"

#include <string>

#include "admin/admin_json.h"

namespace sluice::admin {

using log::LogFormat;
using log::LogModule;
using log::LogSettings;

namespace {

struct WantedLog {
  LogSettings settings;
  uint64_t every = 0;
};

std::string words(std::span<const std::string_view> all) {
  std::string text;
  for (const std::string_view word : all) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string level_problem(const std::string& key) {
  return "`" + key + "` must be one of " + words(log::log_level_names());
}

std::optional<spdlog::level::level_enum> level_of(const Json& json) {
  return json.is_string() ? log::log_level(json.get<std::string>()) : std::nullopt;
}

// What is wrong; "" if nothing.
std::string read_modules(const Json& json, LogSettings& settings) {
  if (!json.is_object()) return "`modules` must be an object";
  for (const auto& [name, value] : json.items()) {
    const auto module = log::log_module(name);
    if (!module)
      return "there is no module `" + name + "`; modules are " + words(log::log_module_names);
    if (value.is_null()) {
      settings.modules.erase(*module);
      continue;
    }
    const auto level = level_of(value);
    if (!level) return level_problem("modules." + name) + ", or null";
    settings.modules[*module] = *level;
  }
  return "";
}

std::string read_denials(const Json& json, uint64_t& every) {
  const bool fits = json.is_object() && json.size() == 1 && json.contains("every") &&
                    json.at("every").is_number_unsigned() &&
                    json.at("every").get<uint64_t>() <= engine::DenialSampler::every_max;
  if (!fits)
    return "`denials` must be {\"every\": N}, N from 0 (none) to " +
           std::to_string(engine::DenialSampler::every_max);
  every = json.at("every").get<uint64_t>();
  return "";
}

std::string read(const Json& json, WantedLog& wanted) {
  for (const auto& [key, value] : json.items()) {
    std::string problem;
    if (key == "level") {
      if (const auto level = level_of(value))
        wanted.settings.level = *level;
      else
        problem = level_problem(key);
    } else if (key == "format") {
      if (value == "text" || value == "json")
        wanted.settings.format = value == "json" ? LogFormat::json : LogFormat::text;
      else
        problem = "`format` must be text or json";
    } else if (key == "modules") {
      problem = read_modules(value, wanted.settings);
    } else if (key == "denials") {
      problem = read_denials(value, wanted.every);
    } else {
      problem = "`" + key + "` is not a known key; known here: level, format, modules, denials";
    }
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace

wire::HttpResponse LogControl::get() const {
  return json_response(200, settings());
}

Json LogControl::settings() const {
  const LogSettings settings = log_.settings();
  Json modules = Json::object();
  for (size_t i = 0; i < log::log_module_names.size(); ++i) {
    const auto own = settings.modules.find(static_cast<LogModule>(i));
    modules[std::string(log::log_module_names[i])] =
        log::name_of(own == settings.modules.end() ? settings.level : own->second);
  }
  return {{"level", log::name_of(settings.level)},
          {"format", log::log_format_names[static_cast<size_t>(settings.format)]},
          {"modules", modules},
          {"denials", {{"every", denials_.every()}}}};
}

wire::HttpResponse LogControl::put(const wire::HttpRequest& request, const HttpHandler& handler,
                                   const std::string& by, live::ChangeLog& changes) {
  const Json json = Json::parse(request.body, nullptr, false);
  if (!json.is_object()) return handler.problem(400, "the body must be a JSON object");
  const std::lock_guard lock(changing_);
  WantedLog wanted{log_.settings(), denials_.every()};
  const std::string problem = read(json, wanted);
  if (!problem.empty()) return handler.problem(422, problem);
  const Json before = settings();
  log_.set(wanted.settings);
  if (wanted.every != denials_.every()) denials_.set_every(wanted.every);
  log_.logger(LogModule::admin)
      ->info("the log was changed to {}", json.dump(-1, ' ', true, Json::error_handler_t::replace));
  changes.add({.what = "log changed", .by = by, .before = before, .after = settings()});
  return get();
}

}  // namespace sluice::admin
