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
inline constexpr size_t frame_bytes_max = 64 << 10;
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
// Lists of one connection that have no reply yet, and bytes of their requests. Past either: the
// connection is not read before one of them has its reply.
inline constexpr size_t lists_per_connection_max = 64;
inline constexpr size_t list_bytes_per_connection_max = size_t{64} << 10;
// Bytes of one worker's requests for lists that have no reply yet. Past it: as above.
inline constexpr size_t list_bytes_max = size_t{64} << 20;
// Counters that one list is shown at most, and bytes of their keys, above which it has a single
// one. Past either: the list ends, as the protocol has it.
inline constexpr size_t listed_max = 100;
inline constexpr size_t listed_bytes_max = size_t{512} << 10;
// Different lists that one pass through the store answers. Past it: the next pass does.
inline constexpr size_t lists_per_pass_max = 128;
// Lists whose counters one worker asks the store for at a time. Past it: one after the other.
inline constexpr size_t lists_read_max = 8;
// Bytes of keys that one worker keeps for lists that have been found and cannot be sent yet. Past
// it: they are looked for again when they can.
inline constexpr size_t found_bytes_max = size_t{32} << 20;
// Counters that are being fetched from disk for callers that ask again anyway. Past it: not fetched
// this time.
inline constexpr size_t unnamed_fetches_max = 1024;
// Entries (key=value pairs) of one request. Past it: `ERR` naming the bound, then close.
inline constexpr size_t descriptor_entries_max = 256;
// The longest time for which units may be held: a day.
inline constexpr int64_t hold_us_max = 86'400'000'000;
// Reservations of a server, as `holds.max` may say: 1 to this.
inline constexpr uint64_t holds_max = 100'000'000;
// Requests taken from one readable event before their replies are written; the rest follow in the
// next round.
inline constexpr size_t batch_requests_max = 256;
// Batches of one connection that wait for the store, where its protocol allows several. Past it: it
// is not read before one has its answer.
inline constexpr size_t batches_per_connection_max = 16;
// Requests of one connection that are decided in one turn, but for the batch that passes it. Past
// it: others have their turn first.
inline constexpr size_t turn_requests_max = 256;
// Bytes read from one connection at a time.
inline constexpr size_t read_bytes_max = 64 << 10;
// Connections at a time over all listeners: by default, and at most. Past it: the client
// is refused in its protocol's words and closed.
inline constexpr size_t connections_default = 100'000;
inline constexpr size_t connections_max = 1'000'000;
// Connections that are refused because there are too many, at a time. Past it: closed silently.
inline constexpr size_t turned_away_max = 256;
// Handshakes of TLS that one worker has under way, in all and of one client address (of IPv6 a
// network of 64 bits). Past either the oldest of them is closed.
inline constexpr size_t handshakes_max = 4096, handshakes_of_client_max = 1024;
// Bytes that the connections of one worker hold for requests that have not arrived whole, above
// what each has anyway. Past it: of the clients that hold at least their share (the bound, divided
// by the number of those that hold some) the one whose request is unfinished for the longest is
// refused, then closed. Of batches that wait for the store, half of it; past that no more is read
// of theirs.
inline constexpr size_t unfinished_bytes_max = 64 << 20;
// Bytes of one worker's replies that wait to be sent, or that sessions keep because the client's
// flow control does not let them out, and of calls that stream. Past it: of the clients that hold
// at least their share the one that has taken nothing for the longest is closed. What waits for its
// commit counts and is not closed; of each connection that is one batch of replies at most.
inline constexpr size_t unsent_bytes_max = size_t{64} << 20;
// Bytes of one worker's requests over HTTP/2 that are under way: whole, and without an answer. Past
// it: their streams are refused.
inline constexpr size_t http2_under_way_bytes_max = size_t{64} << 20;
// Buffers of a client's socket in the kernel, which takes up to twice as much. Past the first: what
// must be sent waits here. Past the second: the client's own kernel keeps what it sends.
inline constexpr size_t socket_send_bytes = size_t{128} << 10;
inline constexpr size_t socket_receive_bytes = size_t{128} << 10;
// How long a stop may go on serving (drain). Past it: refused at load.
inline constexpr int64_t drain_us_max = int64_t{300} * 1'000'000;
// How long a client may take for a request, and how long it may take nothing of what it is sent
// (request_timeout and send_timeout of a listener). Past it: refused at load.
inline constexpr int64_t timeout_us_min = 100'000;
inline constexpr int64_t timeout_us_max = int64_t{86'400} * 1'000'000;
// Connections to the HTTP ports (admin, metrics) at a time that have asked for something but
// health, and how many more there may be that have not, or have asked for health alone. Where few
// files may be open it is fewer (net/files.h). Past either: the connection that has been silent
// longest is closed silently. Connections that are accepted and wait for the HTTP thread;
// past it: they wait in the kernel's queue.
inline constexpr size_t admin_connections_max = 64;
inline constexpr size_t admin_connections_min = 8;
inline constexpr size_t admin_health_connections_max = 8;
inline constexpr size_t admin_accepted_max = 16;
// Bytes of the bodies of all HTTP requests that have not been answered. Past it: 503, then close.
inline constexpr size_t admin_bodies_bytes_max = size_t{64} << 20;
// An answer of a list of the admin port's, a little more with its last item. Past it: the page
// ends, and says where the next one begins.
inline constexpr size_t admin_page_bytes_max = size_t{1} << 20;
// A counter's name as the admin port shows it, and an actor's. Past it: the beginning, with the
// length and a digest of the whole.
inline constexpr size_t shown_name_bytes_max = 256;
// Names of counters that one search holds, but for one that is longer. Past it: the page ends.
inline constexpr size_t listed_names_bytes_max = size_t{8} << 20;
// The body of an HTTP request; only one that may ask gets to send it. Past it: 413, then close.
// The first is of a policy or a list of overrides, the other of all else.
inline constexpr size_t admin_body_bytes_max = size_t{16} << 20;
inline constexpr size_t admin_small_body_bytes_max = size_t{1} << 20;
// How deep such a body may nest where it is JSON; members of one object in it. Past it: 400.
inline constexpr size_t admin_json_depth_max = 32;
inline constexpr size_t admin_json_members_max = 1024;
// Requests to the admin port that take long (a candidate to be checked), queued. Past it: 503.
inline constexpr size_t admin_queued_max = 16;
// Questions of the admin port that are under way at workers, and searches for its pages that are
// queued. Past it: 503.
inline constexpr size_t queries_max = 64;
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
// Different lists of limits that are known at a time, of rules, overrides and counters together,
// past which an override brings no new one; likewise the beginnings and ends of Divvy's keys, as
// these hold the limits. Past it: 507.
inline constexpr size_t override_limits_max = 1'000'000;
// Different lists of limits, and different spaces of counters, that are known at a time, some 150
// bytes each: what no rule, override or counter has any more is forgotten in a while
// (request/space.h). Past it: a reload is refused, and the live policy stays. (One reload brings
// rules_max of each at most.)
inline constexpr size_t known_limits_max = 4'000'000;
// The same where a list comes with a request. Past it: the request fails until some are forgotten.
// The last ones are a reserve for clients with few lists, in which each new one has the client with
// most lists lose one. One client, a user or without users an address, has so many; as many more
// may be leaving. Past the first: its list that was used least recently gives way. Past both: its
// request fails until some are forgotten.
inline constexpr size_t inline_limits_max = 500'000;
inline constexpr size_t inline_limits_reserve = inline_limits_max / 8;
inline constexpr size_t inline_limits_few = 1'000;
inline constexpr size_t inline_limits_of_client_max = 30'000;
// Time zones that a process knows (limit/calendar.h); data have some 600. Past it: a policy with
// another one is refused until the process ends.
inline constexpr size_t zones_max = 4'096;
// Windows of the calendar that a program has numbers of from the C interface. Past it: it gets no
// more.
inline constexpr size_t numbered_calendars_max = 8'192;
// Lists that came with requests which a worker keeps at hand. Past it: it begins again.
inline constexpr size_t inline_limits_kept_max = 4'096;
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
// Requests that settle together, all or nothing. A session puts no more of them in a row.
inline constexpr size_t together_max = 64;
// Commands of one worker that Redis has not answered, and their bytes that have not left. Past
// either: the request is answered by its rules' on_store_error.
inline constexpr size_t redis_commands_max = 65'536;
inline constexpr size_t redis_bytes_max = size_t{16} << 20;
// A reply of Redis; none that we ask for comes near. Past it: the connection is given up.
inline constexpr size_t redis_reply_bytes_max = size_t{1} << 20;
// Keys that a list looks at in Redis, at most. Past it: the list is what was found so far; a page
// of the admin port's says where to go on.
inline constexpr size_t redis_scanned_max = 10'000'000;
// Primaries of a Redis Cluster. Past it: what the nodes say of their slots is not believed, and the
// log says so.
inline constexpr size_t redis_primaries_max = 1'000;
// Primaries that descriptors are kept for, in each worker. Past it: there may be too few for as
// many clients as are promised.
inline constexpr size_t redis_primaries_held = 16;
// Nodes of a Redis Cluster that one command is sent on to at once. Past it: after a pause
// (redis/cluster_map.h).
inline constexpr unsigned redis_redirects_max = 5;
// Names of what was changed last among the texts kept in Redis. A server that is further behind
// reads all of them.
inline constexpr size_t redis_kept_changes = 65'536;
// Memory of the counter table: what 32-bit references to 4-byte units reach. Past it: refused at
// start.
inline constexpr size_t table_bytes_min = size_t{16} << 20;
inline constexpr size_t table_bytes_max = size_t{16} << 30;
// Chains of its stripe that a new counter sweeps for a place when the memory is full. Past it: it
// fails (Error::memory); the next one goes on from there.
inline constexpr uint32_t replaced_chains_max = 64;

// Bytes of the log of a store on disk behind its last snapshot, if half of that is not more; and
// its files. Past it: a snapshot is due, and at four times the bytes, if none could be written,
// commits fail.
inline constexpr size_t log_bytes_max = size_t{64} << 20;
inline constexpr size_t logs_max = 8;
// Files that a store on disk has open: log, snapshot, lock, what is copied by a backup. Kept free
// of connections.
inline constexpr size_t store_files = 16;
// How long a durable store may wait between two commits. Past it: refused at load.
inline constexpr size_t commit_interval_ms_max = 60'000;
// A request to a running server to copy its store. Past it: closed.
inline constexpr size_t backup_line_bytes_max = 8 << 10;
// A policy or server configuration file. Past it: refused, naming the bound.
inline constexpr size_t config_bytes_max = 64 << 20;
// Users of a server; bytes of a user's name. Past it: refused, naming the bound.
inline constexpr size_t users_max = 10'000;
inline constexpr size_t user_name_bytes_max = 64;
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
// Steps of matching one request with the patterns of all rules, about one for each byte of a value
// that a pattern with a star in front of other characters goes through, and for that of a key with
// the patterns of overrides; 1 to 2 ns each. Past it: the request cannot be decided, which is
// answered as an error; of overrides it is denied. Counted, and told in the log.
inline constexpr size_t match_steps_max = 4'000'000;
// Bytes of a value that each pattern goes through without their being counted.
inline constexpr size_t match_free_bytes = 256;
// Steps that a regular expression counts as which gave up.
inline constexpr size_t match_steps_of_regex = 400'000;
// Steps of `sluice check` in comparing rules with each other, about 100 ns each. Past it: every
// rule has been compared with some of the others, and that is said.
inline constexpr size_t review_steps_max = 5'000'000;
// Units in a quota: integers that every dialect (JSON, Lua, JavaScript) still holds exactly. Past
// it: refused at load.
inline constexpr int64_t quota_max = (int64_t{1} << 53) - 1;
// Length of a window, 100 years of 366 days. Past it: refused at load.
inline constexpr int64_t window_us_max = int64_t{100} * 366 * 86'400 * 1'000'000;

}  // namespace sluice::base::bounds
