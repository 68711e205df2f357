"""Stands in for a language model, to try the gateway: an answer of `max_tokens` tokens, 20 in each chunk, each of which says
what was used so far, as vLLM does with `stream_options: {"include_usage": true, "continuous_usage_stats": true}`."""

import http.server, json, os


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = sum(len(message["content"]) for message in asked["messages"]) // 4
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for done in range(0, asked["max_tokens"], 20):
            tokens = min(20, asked["max_tokens"] - done)
            chunk = {"choices": [{"delta": {"content": "well " * tokens}, "finish_reason": None}],
                     "usage": {"prompt_tokens": prompt, "total_tokens": prompt + done + tokens}}
            if done + tokens == asked["max_tokens"]:
                chunk["choices"][0]["finish_reason"] = "stop"
            self.wfile.write(b"data: %s\n\n" % json.dumps(chunk).encode())
        self.wfile.write(b"data: [DONE]\n\n")


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Model)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()
