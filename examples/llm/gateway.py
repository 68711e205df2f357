"""A gateway in front of a language model, for tenants that buy tokens: it reserves before the call, extends while the answer
streams, and commits what it came to. Whoever authenticates its clients sets the header X-Tenant."""

import http.client, http.server, json, os, time, urllib.error, urllib.request, uuid

SLUICE, MODEL = os.environ.get("SLUICE_URL", "http://127.0.0.1:8390"), os.environ.get("MODEL_URL", "http://127.0.0.1:9000")
STEP, LEAST = 500, 100  # tokens: what is reserved at a time, and extended when no more than LEAST of it are left
TTL, SILENCE = int(os.environ.get("HOLD_SECONDS", "120")), 30  # a reservation without news ends; a silent model is given up
LENGTH = b'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}\n\ndata: [DONE]\n\n'


def ask(path, **body):
    """The status and the answer of sluice. Where an answer is lost the request is sent again, with the same id."""
    request = urllib.request.Request(SLUICE + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    for wait in (0.1, 1, None):
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503 or wait is None:
                return error.code, json.load(error)
        except (OSError, http.client.HTTPException) as error:
            if wait is None:
                return 503, {"detail": f"sluice cannot be reached: {error}"}
        time.sleep(wait)


class Gateway(http.server.BaseHTTPRequestHandler):
    def refuse(self, status, why):
        self.send_response(status)
        if why.get("retry_after"):
            self.send_header("Retry-After", str(int(why["retry_after"]) + 1))
        self.end_headers()
        self.wfile.write(json.dumps({"error": why}).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        prompt = sum(len(message["content"]) for message in json.loads(body)["messages"]) // 4  # a tokenizer knows better
        hold, entries = str(uuid.uuid4()), {"tenant": self.headers["X-Tenant"], "what": "tokens"}
        status, answer = ask("/v1/reserve", id=hold, entries=entries, n=prompt + STEP, ttl=TTL)
        if status != 200:
            return self.refuse(status, answer)
        reserved, heard, used, begun = answer["reserved"], time.monotonic(), 0, False
        try:
            if reserved < prompt:  # max_fraction of the rule has cut it
                return self.refuse(413, {"detail": "the prompt is longer than one call may be"})
            with urllib.request.urlopen(urllib.request.Request(MODEL + self.path, body), timeout=SILENCE) as model:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                begun = True
                for line in model:
                    chunk = json.loads(line[6:]) if line.startswith(b"data: {") else {}
                    if chunk:  # with `continuous_usage_stats` it says what was used so far; else it is a token
                        used = (chunk.get("usage") or {}).get("total_tokens", used + 1 if used else prompt + 1)
                    self.wfile.write(line)
                    goes_on = any(choice["finish_reason"] is None for choice in chunk.get("choices", ()))
                    if goes_on and used > reserved - LEAST:
                        status, answer = ask("/v1/extend", id=hold, n=max(STEP, used + STEP - reserved), ttl=TTL)
                        if status != 200:  # the budget has ended, or the reservation has
                            self.wfile.write(LENGTH)
                            break
                        reserved, heard = answer["reserved"], time.monotonic()
                    elif time.monotonic() > heard + TTL / 4:
                        ask("/v1/renew", id=hold, ttl=TTL)
                        heard = time.monotonic()
        except OSError as error:  # the model failed, or the client is gone
            if not begun:
                self.refuse(502, {"detail": f"the model: {error}"})
        finally:
            ask("/v1/commit", id=hold, n=used, entries=entries)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer.request_queue_size = 1000
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Gateway)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()
