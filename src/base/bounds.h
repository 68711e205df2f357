// Every hard maximum of the program, with what happens past it. A user's limits are policy; these
// protect the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::base::bounds {

// One request line of the Divvy protocol, without its LF. Past it: `ERR` naming the bound, then
// close.
inline constexpr size_t line_bytes_max = 1 << 20;
// One message of the limitd protocol, without its length. Past it: the connection is closed.
inline constexpr size_t limitd_frame_bytes_max = 64 << 10;
// One WebSocket message. Past it: Close 1009.
inline constexpr size_t websocket_message_bytes_max = 1 << 20;
// The head of an HTTP request, its empty line included. Past it: 431, then close.
inline constexpr size_t http_head_bytes_max = 8 << 10;
// What a session keeps of a request for its reply: a limitd id. Past it: the connection is closed.
inline constexpr size_t tag_bytes_max = 64 << 10;
// Requests that wait for units: of one connection, and of the whole server. Past it: refused as if
// they had not asked to wait.
inline constexpr size_t waiting_per_connection_max = 16'384;
inline constexpr size_t waiting_max = 262'144;
// Bytes that one worker holds for requests whose replies come later. Past it: as above.
inline constexpr size_t parked_bytes_max = size_t{64} << 20;
// Bytes of late replies that a client does not take. Past it: its connection is closed.
inline constexpr size_t late_bytes_max = size_t{16} << 20;
// Lists of one connection that are under way or queued. Past it: the list is empty.
inline constexpr size_t lists_per_connection_max = 64;
// Lists that are under way or queued, of the whole server. Past it: the list is empty.
inline constexpr size_t lists_max = 1024;
// Counters that one request is shown at most.
inline constexpr size_t listed_max = 100;
// Counters that are being fetched from disk for those who ask again anyway. Past it: not fetched
// this time.
inline constexpr size_t unnamed_fetches_max = 1024;
// Entries (key=value pairs) of one request. Past it: `ERR` naming the bound, then close.
inline constexpr size_t descriptor_entries_max = 256;
// Requests taken from one readable event before their replies are written; the rest follow in the
// next round.
inline constexpr size_t batch_requests_max = 1024;
// Bytes read from one connection at a time, and so the most that one client can have decided before
// others get a turn.
inline constexpr size_t read_bytes_max = 64 << 10;
// Connections at a time over all listeners: unless told otherwise, and at most. Past it: the client
// is told in its protocol's words and closed.
inline constexpr size_t connections_default = 100'000;
inline constexpr size_t connections_max = 1'000'000;
// Connections that are told that they are too many, at a time. Past it: closed without a word.
inline constexpr size_t turned_away_max = 256;
// Bytes that the connections of one worker hold for requests that have not arrived whole, above
// what each has anyway. Past it: the client that needs more is told, then closed.
inline constexpr size_t unfinished_bytes_max = 64 << 20;
// Connections to the HTTP ports (admin, metrics) at a time. Past it: closed without a word.
inline constexpr size_t admin_connections_max = 64;
// The body of an HTTP request; only one that may ask gets to send it. Past it: 413, then close.
// The first is of a policy or a list of overrides, the other of all else.
inline constexpr size_t admin_body_bytes_max = size_t{16} << 20;
inline constexpr size_t admin_small_body_bytes_max = size_t{1} << 20;
// How deep such a body may nest where it is JSON; members of one object in it. Past it: 400.
inline constexpr size_t admin_json_depth_max = 32;
inline constexpr size_t admin_json_members_max = 1024;
// Requests to the admin port that take long (a candidate to be checked), queued. Past it: 503.
inline constexpr size_t admin_queued_max = 16;
// Questions of the admin port that are under way at workers. Past it: 503.
inline constexpr size_t inquiries_max = 64;
// Rules or counters on one page of the admin port's lists. Past it: 400.
inline constexpr size_t admin_page_max = 1000;
// Rules that metrics tell apart, by name or pattern. Past it: the others count together.
inline constexpr size_t metric_rules_max = 4095;
// Overrides, of all rules together, some 400 bytes each; those of one request; bytes of the actor
// of one, and of its comment. Past it: 507, and 422.
inline constexpr size_t overrides_max = 2'000'000;
inline constexpr size_t overrides_per_request_max = 1000;
inline constexpr size_t override_actor_bytes_max = 4096;
inline constexpr size_t override_comment_bytes_max = 1024;
// Different lists of limits that are known, of rules and overrides together, past which an override
// brings no new one; likewise the beginnings and ends of Divvy's keys, as these hold the limits.
// Both are known until the process ends. Past it: 507.
inline constexpr size_t override_limits_max = 1'000'000;
// Overrides for patterns of one rule that begin with the same characters (up to 64 of them), and so
// are gone through by a request whose actor does. Past it: 507.
inline constexpr size_t overrides_alike_max = 64;
// Keys that a worker tracks in each order (most active, most denied) for each minute. Past it: the
// least counted one makes room, and counts say by how much they may be too high. A worker holds 1.6
// MB for it at most, and an answer of /v1/top 2 MB more for each worker while it is made.
inline constexpr size_t top_keys_max = 512;
// Bytes of a key that are kept for that. Past it: cut, and that is said.
inline constexpr size_t top_key_bytes_max = 128;
// Worker threads. Past it: refused at start.
inline constexpr unsigned workers_max = 1024;
// Charges that settle together. Past it: `sluice check` warns, and a request that meets more is
// answered with an error.
inline constexpr size_t group_charges_max = 64;
// Commands of one worker that Redis has not answered, and their bytes that have not left. Past
// either: the request is answered by its rules' on_store_error.
inline constexpr size_t redis_commands_max = 65'536;
inline constexpr size_t redis_bytes_max = size_t{16} << 20;
// A reply of Redis; none that we ask for comes near. Past it: the connection is given up.
inline constexpr size_t redis_reply_bytes_max = size_t{1} << 20;
// Keys that a list looks at in Redis, at most. Past it: the list is what was found so far; a page
// of the admin port's says where to go on.
inline constexpr size_t redis_scanned_max = 10'000'000;
// Names of what was changed last among the texts kept in Redis. A server that is further behind
// reads all of them.
inline constexpr size_t redis_kept_changes = 65'536;
// Memory of the counter table: what 32-bit references to 4-byte units reach. Past it: refused at
// start.
inline constexpr size_t table_bytes_min = size_t{16} << 20;
inline constexpr size_t table_bytes_max = size_t{16} << 30;
// Bytes of a store's blocks that are not folded yet, and so the most that a start has to replay.
// Past it: commits wait, and with them what they hold up.
inline constexpr size_t unfolded_bytes_max = size_t{32} << 20;
// How long a durable store may wait between two commits. Past it: refused at load.
inline constexpr size_t commit_interval_ms_max = 60'000;
// A request to a running server to copy its store. Past it: closed.
inline constexpr size_t backup_line_bytes_max = 8 << 10;
// A policy or server configuration file. Past it: refused, naming the bound.
inline constexpr size_t config_bytes_max = 64 << 20;
// Rules of one rule set, all dialects together. Past it: refused, naming the bound.
inline constexpr size_t rules_max = 1'000'000;
// A regular expression of a policy. Past it: refused at load.
inline constexpr size_t regex_source_bytes_max = 4096;
// What one regular expression may cost on one text: steps of its matching, and steps times bytes of
// the text, as a step may go through all of it. Past either: it does not fit, and a counter says
// so.
inline constexpr size_t regex_steps_max = 100'000;
inline constexpr size_t regex_work_max = 2'000'000;
// A text that is searched for a place where a regular expression fits; one that begins with `^` has
// only one and takes any text. Past it: as above.
inline constexpr size_t regex_text_bytes_max = 1024;
// Steps of `sluice check` in comparing rules with each other, about 100 ns each. Past it: every
// rule has been compared with some of the others, and that is said.
inline constexpr size_t review_steps_max = 5'000'000;
// Units in a quota: integers that every dialect (JSON, Lua, JavaScript) still holds exactly. Past
// it: refused at load.
inline constexpr int64_t quota_max = (int64_t{1} << 53) - 1;
// Length of a window, 100 years of 366 days. Past it: refused at load.
inline constexpr int64_t window_us_max = int64_t{100} * 366 * 86'400 * 1'000'000;

}  // namespace sluice::base::bounds
