#include "protocol/http/problem.h"

#include "base/decimal.h"
#include "protocol/http/json_text.h"

namespace sluice::http {

namespace problems {
constinit const ProblemKind bad_request{400, "urn:sluice:problem:bad-request", "Bad request"};
constinit const ProblemKind unauthorized{401, "urn:sluice:problem:unauthorized",
                                         "Credentials are needed"};
constinit const ProblemKind forbidden{403, "urn:sluice:problem:forbidden", "Forbidden"};
constinit const ProblemKind no_rule{404, "urn:sluice:problem:no-rule", "No rule applies"};
constinit const ProblemKind not_found{404, "urn:sluice:problem:not-found", "Not found"};
constinit const ProblemKind no_such_profile{404, "urn:sluice:problem:no-such-profile",
                                            "No such profile"};
constinit const ProblemKind method_not_allowed{405, "urn:sluice:problem:method-not-allowed",
                                               "Method not allowed"};
constinit const ProblemKind not_acceptable{406, "urn:sluice:problem:not-acceptable",
                                           "Not acceptable"};
constinit const ProblemKind wait_timeout{408, "urn:sluice:problem:wait-timeout",
                                         "The wait timed out"};
constinit const ProblemKind id_in_use{409, "urn:sluice:problem:id-in-use",
                                      "The id was used with another charge"};
constinit const ProblemKind too_large{413, "urn:sluice:problem:content-too-large",
                                      "Content too large"};
constinit const ProblemKind unsupported_type{415, "urn:sluice:problem:unsupported-media-type",
                                             "Unsupported media type"};
constinit const ProblemKind wrong_host{421, "urn:sluice:problem:misdirected-request",
                                       "Misdirected request"};
constinit const ProblemKind quota_exceeded{
    429, "https://iana.org/assignments/http-problem-types#quota-exceeded", "Quota exceeded"};
constinit const ProblemKind not_yet{501, "urn:sluice:problem:not-yet", "Not available yet"};
constinit const ProblemKind reduced_capacity{
    503, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Temporary reduced capacity"};
}  // namespace problems

void append_problem(const Problem& problem, bool short_form, base::Buffer& out) {
  if (!short_form) {
    out.append("\"type\": \"");
    out.append(problem.kind->type);
    out.append("\", \"title\": \"");
    out.append(problem.kind->title);
    out.append("\", \"status\": ");
    base::append_decimal(problem.kind->status, out);
  }
  if (!problem.detail.empty()) {
    out.append(short_form ? "\"detail\": " : ", \"detail\": ");
    append_json_text(problem.detail, out);
  }
  if (problem.has_pointer) {
    out.append(short_form && problem.detail.empty() ? "\"pointer\": " : ", \"pointer\": ");
    append_json_text(problem.pointer, out);
  }
}

}  // namespace sluice::http
