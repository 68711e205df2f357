"""The two pods of deploy/kubernetes/redis.yaml replaced one by one under load, as the Deployment's rolling update does: what each
request was answered, what Redis counted, and how long the longest took."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections import Counter

from kubelet import MANIFESTS, SECONDS_MAX, Pod, PodTest, RedisServer, of_kind, read_all, wait_until

CLIENTS = 4
QUOTA = 10_000_000
PASSWORD = "a-password-for-tests"
RULES = f"rules: [{{ name: counted, match: {{ key: one }}, actor: key, limit: {{ algorithm: fixed_window, quota: {QUOTA}, window: 30d }} }}]\n"
DRAINED = 10  # requests that a pod has to answer after it was told to stop


class Service:
    """Its clients ask the pods in turn, each on a connection that it keeps for as long as the pod is one of them."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.answered: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.longest = 0.0
        self._mutex, self._over = threading.Lock(), threading.Event()
        self._clients = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def take(self, connection: http.client.HTTPConnection, units: int = 1) -> int:
        """Returns how many units are left."""
        connection.request("POST", "/v1/take", json.dumps({"entries": {"key": "one"}, "n": units}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        if answer.status != 200:
            raise http.client.HTTPException(f"{answer.status}: {text}")
        return json.loads(text)["remaining"]

    def _ask(self) -> None:
        kept: dict[str, http.client.HTTPConnection] = {}
        turn = 0
        while not self._over.is_set():
            pods = list(self.pods)
            for gone in kept.keys() - set(pods):
                kept.pop(gone).close()
            turn += 1
            pod = pods[turn % len(pods)]
            connection = kept.setdefault(pod, http.client.HTTPConnection(pod, timeout=SECONDS_MAX))
            begin = time.monotonic()
            try:
                self.take(connection)
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(f"{pod}: {error!r}")
                kept.pop(pod).close()
            with self._mutex:
                self.answered[pod] += 1
                self.longest = max(self.longest, time.monotonic() - begin)
        for connection in kept.values():
            connection.close()

    def __enter__(self) -> Service:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for client in self._clients:
            client.join()


def is_ready(pod: Pod) -> bool:
    path = pod.spec["containers"][0]["readinessProbe"]["httpGet"]["path"]
    try:
        with urllib.request.urlopen(f"http://{pod.addresses['admin']}{path}", timeout=SECONDS_MAX):
            return True
    except urllib.error.HTTPError:
        return False


class Rolling(PodTest):
    test_seconds_max = 120

    def start(self, redis: RedisServer) -> Pod:
        objects = read_all((MANIFESTS / "redis.yaml").read_text(encoding="utf-8"))
        [config] = of_kind(objects, "ConfigMap")
        settings = config["data"]["sluice.yaml"].partition("rules:")[0]
        # The deadline is long, as the machine may be busy.
        changed = settings.replace('nodes: ["redis:6379"]', f'nodes: ["127.0.0.1:{redis.port}"]\n    password: {PASSWORD}\n    deadline_ms: 20000')
        self.assertNotEqual(changed, settings)
        config["data"]["sluice.yaml"] = changed + RULES
        pod = self.pod(objects).start()
        wait_until(lambda: is_ready(pod), "a pod is ready")
        return pod

    def test_no_request_is_lost(self) -> None:
        redis = RedisServer(self.new_folder(), PASSWORD)
        self.addCleanup(redis.close)
        old = [self.start(redis) for _ in range(2)]
        service = Service()
        service.pods = [pod.addresses["http"] for pod in old]
        with service:
            for pod in old:
                new = self.start(redis)  # maxSurge: 1, maxUnavailable: 0
                service.pods = [*service.pods, new.addresses["http"]]
                address, process = pod.addresses["http"], pod.process
                assert process is not None
                process.process.send_signal(signal.SIGTERM)
                wait_until(lambda: not is_ready(pod), "it is told to stop")
                before = service.answered[address]
                wait_until(lambda: service.answered[address] >= before + DRAINED, "it serves on")
                service.pods = [one for one in service.pods if one != address]
                self.assertEqual(process.await_end(), 0, pod.said)
                pod.process = None
            now = service.pods[0]
            wait_until(lambda: service.answered[now] > 100, "requests after the update")
        self.assertEqual(service.wrong, [])
        total = sum(service.answered.values())
        with contextlib.closing(http.client.HTTPConnection(now, timeout=SECONDS_MAX)) as connection:
            self.assertEqual(QUOTA - service.take(connection, 0), total)
        print(f"rolling update: {total} requests, each answered and counted once; the longest took {1000 * service.longest:.0f} ms")


if __name__ == "__main__":
    unittest.main()
