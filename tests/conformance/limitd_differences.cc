#include "tests/conformance/limitd_differences.h"

namespace sluice::tests {

const std::vector<LimitdDifference>& limitd_differences() {
  static const char* const never_adds = "a negative count never adds; it is refused";
  static const char* const absent_method = "an absent method with a type is TAKE";
  static const char* const empty_key = "the empty key is an ordinary key";
  static const char* const names = "constructor and similar are ordinary names";
  static const char* const put_ignores = "a negative count puts nothing";
  static const char* const put_drips = "PUT drips first and computes reset from the new content";
  static const char* const get_drips = "GET drips first";
  static const char* const prefix = "true prefix search";
  static const char* const exact_moment = "woken at the moment the units are available";
  static const char* const until = "a quoted date is a date";
  static const char* const inherit = "an override with neither size nor rate has those of its type";
  static const char* const strings = "a string is an expression";
  static const char* const flag_g = "the flag g is ignored";
  static const std::vector<LimitdDifference> all{
      {"take: negative count adds tokens above the size",
       0,
       R"({"request_id": "q29", "take": {"conformant": false, "delayed": false, "remaining": 3, "reset": 0, "limit": 3}})",
       {0, 500},
       never_adds},
      {"take: negative count adds tokens above the size",
       1,
       R"({"request_id": "q30", "get": {"remaining": 3, "reset": 0, "limit": 3}})",
       {0, 500},
       never_adds},
      {"error: method absent closes the connection",
       0,
       R"({"request_id": "1", "take": {"conformant": true, "delayed": false, "remaining": 2, "reset": 0, "limit": 3}})",
       {0, 500},
       absent_method},
      {"error: empty key TAKE closes the connection",
       0,
       R"({"request_id": "q79", "take": {"conformant": true, "delayed": false, "remaining": 2, "reset": 0, "limit": 3}})",
       {0, 500},
       empty_key},
      {"error: empty key GET, PUT all and STATUS are answered",
       0,
       R"({"request_id": "q80", "get": {"remaining": 2, "reset": 0, "limit": 3}})",
       {0, 500},
       empty_key},
      {"error: type named constructor kills the server",
       0,
       R"({"request_id": "q83", "error": {"type": "UNKNOWN_BUCKET_TYPE"}})",
       {0, 500},
       names},
      {"error: key named constructor kills the server",
       0,
       R"({"request_id": "q84", "take": {"conformant": true, "delayed": false, "remaining": 2, "reset": 0, "limit": 3}})",
       {0, 500},
       names},
      {"put: negative count drains below zero",
       0,
       R"({"request_id": "q101", "put": {"remaining": 3, "reset": 0, "limit": 3}})",
       {0, 500},
       put_ignores},
      {"put: negative count drains below zero",
       1,
       R"({"request_id": "q102", "put": {"remaining": 3, "reset": 0, "limit": 3}})",
       {0, 500},
       put_ignores},
      {"put: negative count drains below zero",
       2,
       R"({"request_id": "q103", "take": {"conformant": true, "delayed": false, "remaining": 2, "reset": 0, "limit": 3}})",
       {0, 500},
       put_ignores},
      {"put: negative count drains below zero",
       3,
       R"({"request_id": "q104", "get": {"remaining": 2, "reset": 0, "limit": 3}})",
       {0, 500},
       put_ignores},
      {"put: does not drip and repeats the stored reset",
       1,
       R"({"request_id": "q107", "put": {"remaining": 3, "reset": {"reset_in": [1439.85, 1441.15]}, "limit": 5}})",
       {0, 500},
       put_drips},
      {"get: does not drip",
       1,
       R"({"request_id": "q118", "get": {"remaining": 1, "reset": {"reset_in": [2.65, 3.95]}, "limit": 4}})",
       {0, 500},
       get_drips},
      {"status: keys whose next byte is above ~ are left out",
       3,
       R"({"request_id": "q144", "status": {"items": [{"instance": "tz~", "remaining": 2, "reset": 0, "limit": 3}, {"instance": "tz~~", "remaining": 2, "reset": 0, "limit": 3}, {"instance": "tzé", "remaining": 2, "reset": 0, "limit": 3}]}})",
       {0, 500},
       prefix},
      {"wait: the missing amount is counted from the floored content",
       1,
       R"({"request_id": "q156", "take": {"conformant": true, "delayed": true, "remaining": 0, "reset": {"reset_in": [3.85, 5.15]}, "limit": 4}})",
       {340, 750},
       exact_moment},
      {"override: exact key before regex because it is declared first",
       0,
       R"({"request_id": "q169", "get": {"remaining": [995, 1000], "reset": {"reset_in": [-0.15, 1.15]}, "limit": 1000}})",
       {0, 500},
       get_drips},
      {"override: quoted until disables the rule",
       0,
       R"({"request_id": "q175", "take": {"conformant": true, "delayed": false, "remaining": 87, "reset": 0, "limit": 88}})",
       {0, 500},
       until},
      {"override: neither size nor rate kills the server",
       0,
       R"({"request_id": "q180", "take": {"conformant": true, "delayed": false, "remaining": 9, "reset": {"reset_in": [0.05, 1.35]}, "limit": 10}})",
       {0, 500},
       inherit},
      {"override: match written as a plain string kills the server",
       0,
       R"({"request_id": "q190", "take": {"conformant": true, "delayed": false, "remaining": 1, "reset": 0, "limit": 2}})",
       {0, 500},
       strings},
      {"override: regex flag g alternates",
       1,
       R"({"request_id": "q192", "take": {"conformant": true, "delayed": false, "remaining": 1, "reset": 0, "limit": 2}})",
       {0, 500},
       flag_g},
  };
  return all;
}

}  // namespace sluice::tests
