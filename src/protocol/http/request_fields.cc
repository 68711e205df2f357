#include "protocol/http/request_fields.h"

#include <algorithm>
#include <cstddef>

namespace sluice::http {
namespace {

using wire::is_http_name;

std::string_view without_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Removes the part before the first `separator`, and the separator, from `text`. Returns the part.
std::string_view take_part(std::string_view& text, char separator) {
  const size_t cut = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, cut);
  text.remove_prefix(std::min(cut + 1, text.size()));
  return without_blanks(part);
}

// A weight in thousandths (RFC 9110, 12.4.2); 1000 if it is malformed.
unsigned weight_of(std::string_view text) {
  if (text.empty() || (text.front() != '0' && text.front() != '1')) return 1000;
  unsigned weight = text.front() == '1' ? 1000 : 0, place = 100;
  if (text.size() > 1 && text[1] != '.') return 1000;
  for (size_t i = 2; i < text.size() && place > 0; ++i, place /= 10) {
    if (text[i] < '0' || text[i] > '9') return 1000;
    weight += static_cast<unsigned>(text[i] - '0') * place;
  }
  return std::min(weight, 1000u);
}

// The weights that an Accept gives to types: that of the most specific range that covers the type.
struct Wishes {
  unsigned problem = 0, json = 0, text = 0;
};

Wishes wishes_of(std::string_view accept) {
  struct Exact {
    int rank = -1;
    unsigned weight = 0;
    void take(int its_rank, unsigned its_weight) {
      if (its_rank <= rank) return;
      rank = its_rank;
      weight = its_weight;
    }
  };
  Exact problem, json, plain, html;
  accept = accept.substr(0, accept_bytes_max);
  while (!accept.empty()) {
    std::string_view item = take_part(accept, ',');
    const std::string_view range = take_part(item, ';');
    unsigned weight = 1000;
    while (!item.empty()) {
      const std::string_view parameter = take_part(item, ';');
      if (parameter.size() > 2 && wire::http_lower(parameter[0]) == 'q' && parameter[1] == '=')
        weight = weight_of(parameter.substr(2));
    }
    if (range == "*/*")
      for (Exact* const one : {&problem, &json, &plain, &html}) one->take(0, weight);
    else if (is_http_name(range, "application/*"))
      for (Exact* const one : {&problem, &json}) one->take(1, weight);
    else if (is_http_name(range, "text/*"))
      for (Exact* const one : {&plain, &html}) one->take(1, weight);
    else if (is_http_name(range, "application/json"))
      json.take(2, weight);
    else if (is_http_name(range, "application/problem+json"))
      problem.take(2, weight);
    else if (is_http_name(range, "text/plain"))
      plain.take(2, weight);
    else if (is_http_name(range, "text/html"))
      html.take(2, weight);
  }
  return {problem.weight, json.weight, std::max(plain.weight, html.weight)};
}

}  // namespace

RequestFields read_request_fields(std::span<const wire::HttpField> fields) {
  RequestFields read;
  const auto once = [&](const wire::HttpField& field, std::string_view& to, bool& seen) {
    if (seen) read.twice = field.name;
    seen = true;
    to = field.value;
  };
  bool type = false, authorization = false, site = false, coding = false;
  for (const wire::HttpField& field : fields) {
    switch (field.name.size()) {
      case 6:
        if (is_http_name(field.name, "accept")) read.accept = field.value;
        if (is_http_name(field.name, "origin")) once(field, read.origin, read.has_origin);
        break;
      case 12:
        if (is_http_name(field.name, "content-type")) once(field, read.content_type, type);
        break;
      case 13:
        if (is_http_name(field.name, "authorization"))
          once(field, read.authorization, authorization);
        break;
      case 14:
        if (is_http_name(field.name, "sec-fetch-site")) once(field, read.sec_fetch_site, site);
        break;
      case 16:
        if (is_http_name(field.name, "content-encoding"))
          once(field, read.content_encoding, coding);
        break;
      case 15:
        read.has_idempotency_key |= is_http_name(field.name, "idempotency-key");
        break;
      default:
        break;
    }
  }
  return read;
}

AnswerForm answer_form(std::string_view accept) {
  if (accept.empty() || accept == "*/*") return AnswerForm::problem;
  if (accept == "application/json") return AnswerForm::json;
  const Wishes wishes = wishes_of(accept);
  if (wishes.json == 0) return wishes.problem == 0 ? AnswerForm::none : AnswerForm::problem;
  return wishes.problem == 0 ? AnswerForm::json : AnswerForm::problem;
}

bool prefers_text(std::string_view accept) {
  if (accept.empty() || accept == "*/*") return false;
  const Wishes wishes = wishes_of(accept);
  return wishes.text > std::max(wishes.json, wishes.problem);
}

bool is_json_type(std::string_view content_type) {
  if (content_type == "application/json") return true;
  if (!is_http_name(take_part(content_type, ';'), "application/json")) return false;
  while (!content_type.empty()) {
    std::string_view parameter = take_part(content_type, ';');
    if (!is_http_name(take_part(parameter, '='), "charset")) continue;
    if (parameter.size() >= 2 && parameter.front() == '"' && parameter.back() == '"')
      parameter = parameter.substr(1, parameter.size() - 2);
    if (!is_http_name(parameter, "utf-8")) return false;
  }
  return true;
}

}  // namespace sluice::http
