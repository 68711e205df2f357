"""examples/llm/litellm_budget.py in a real LiteLLM: calls, streams, retries and the paths that call no hook."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import unittest
from collections.abc import Awaitable, Callable

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices
import litellm  # noqa: E402
from litellm.integrations.custom_logger import CustomLogger  # noqa: E402

from llm import FOLDER, Relay, Serving, Sluice, serve  # noqa: E402
from sluice_server import SECONDS_MAX, HttpTest, ask, wait_until  # noqa: E402

sys.dont_write_bytecode = True
sys.path.append(str(FOLDER))

from litellm_budget import Budget  # noqa: E402

MESSAGES = [{"role": "user", "content": "hello"}]
PROMPT = litellm.token_counter(model="openai/good", messages=MESSAGES)
USED = 30  # of each answer
litellm.suppress_debug_info = True


class OpenAi:
    """The model `good` answers, `bad` fails, `broken` breaks off its stream, `stuck` says one word and no more."""

    def __init__(self, test: unittest.TestCase) -> None:
        self.over, self.requests = threading.Event(), 0
        openai = self

        class Handler(Serving):
            def event(self, **chunk: object) -> None:
                told = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", **chunk}
                self.wfile.write(b"data: %s\n\n" % json.dumps(told).encode())

            def do_POST(self) -> None:
                asked = json.loads(self.body())
                openai.requests += 1
                model, usage = asked["model"], {"prompt_tokens": USED - 20, "completion_tokens": 20, "total_tokens": USED}
                self.send_response(500 if model == "bad" else 200)
                self.send_header("Content-Type", "text/event-stream" if asked.get("stream") else "application/json")
                self.end_headers()
                if model == "bad":
                    self.wfile.write(b'{"error": {"message": "bad"}}')
                elif asked.get("stream"):
                    self.event(choices=[{"index": 0, "delta": {"role": "assistant", "content": "well"}, "finish_reason": None}])
                    if model == "stuck":
                        openai.over.wait(SECONDS_MAX)
                    if model == "broken":
                        return
                    self.event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
                    if asked.get("stream_options", {}).get("include_usage"):
                        self.event(choices=[], usage=usage)
                    self.wfile.write(b"data: [DONE]\n\n")
                else:
                    if model == "stuck":
                        openai.over.wait(SECONDS_MAX)
                    choice = {"index": 0, "message": {"role": "assistant", "content": "well"}, "finish_reason": "stop"}
                    self.wfile.write(json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": model,
                                                 "usage": usage, "choices": [choice]}).encode())

        self.port = serve(test, Handler)
        test.addCleanup(self.over.set)


class LiteLlmTest(HttpTest):
    seconds = 120  # of a reservation

    def setUp(self) -> None:
        super().setUp()
        self.openai = OpenAi(self)
        self.sluice = Sluice(self, {"window: month": "window: year", "on_expiry: keep": "on_expiry: release"})
        self.relay = Relay(self, self.sluice)
        self.addCleanup(litellm.logging_callback_manager._reset_all_callbacks)  # it copies them to lists of its own

    def run_with(self, work: Callable[[], Awaitable[object]]) -> object:
        async def whole() -> object:
            litellm.callbacks = [Budget(f"http://127.0.0.1:{self.relay.port}", self.seconds)]
            try:
                return await work()
            finally:  # LiteLLM reports in tasks of its own
                end = time.monotonic() + SECONDS_MAX / 2
                while self.sluice.holds() != [] and time.monotonic() < end:
                    await asyncio.sleep(0.01)

        return asyncio.run(whole())

    def deployment(self, model: str, **more: object) -> dict[str, object]:
        return {"model": f"openai/{model}", "api_base": f"http://127.0.0.1:{self.openai.port}/v1", "api_key": "k",
                "max_retries": 0, **more}

    def call(self, model: str, **more: object) -> Awaitable[object]:
        return litellm.acompletion(**self.deployment(model), messages=MESSAGES, user="acme", **more)

    def used(self) -> int:
        self.assertEqual(self.sluice.holds(), [])
        return self.sluice.used("acme", "year")

    def reserved(self) -> list[int]:
        return [asked.sent["n"] for asked in self.relay.of("/v1/reserve")]


class Calls(LiteLlmTest):
    def test_a_call_is_reserved_and_committed(self) -> None:
        self.run_with(lambda: self.call("good"))
        self.assertEqual((self.used(), self.reserved()), (USED, [PROMPT + 500]))

    def test_the_bound_of_the_call_is_reserved(self) -> None:
        self.run_with(lambda: self.call("good", max_tokens=40))
        self.assertEqual((self.used(), self.reserved()), (USED, [PROMPT + 40]))

    def test_a_stream_is_committed_when_it_ends(self) -> None:
        async def read() -> None:
            async for _ in await self.call("good", stream=True, stream_options={"include_usage": True}):
                self.assertEqual([hold["n"] for hold in self.sluice.holds()] or [0], [PROMPT + 500])

        self.run_with(read)
        self.assertEqual(self.used(), USED)

    def test_a_failure_gives_all_back(self) -> None:
        with self.assertRaises(litellm.InternalServerError):
            self.run_with(lambda: self.call("bad"))
        self.assertEqual((self.used(), self.reserved()), (0, [PROMPT + 500]))

    def test_each_attempt_of_a_router_has_a_reservation(self) -> None:
        router = litellm.Router(
            [{"model_name": name, "litellm_params": self.deployment(name)} for name in ("bad", "good")],
            fallbacks=[{"bad": ["good"]}], num_retries=1, retry_after=0)
        self.run_with(lambda: router.acompletion(model="bad", messages=MESSAGES, user="acme"))
        self.assertEqual((self.used(), len(self.reserved()), self.openai.requests), (USED, 3, 3))
        self.assertEqual((len(self.relay.of("/v1/release")), len(self.relay.of("/v1/commit"))), (2, 1))

    def test_a_refused_call_does_not_reach_the_model(self) -> None:
        ask(self.sluice.port, "POST", "/v1/charge", {"entries": {"tenant": "acme", "what": "tokens"}, "n": 9_900})
        router = litellm.Router([{"model_name": "good", "litellm_params": self.deployment("good")}], num_retries=2, retry_after=0)
        with self.assertRaisesRegex(litellm.BudgetExceededError, "rule tokens"):
            self.run_with(lambda: router.acompletion(model="good", messages=MESSAGES, user="acme"))
        self.assertEqual((self.openai.requests, self.used(), len(self.relay.asked)), (0, 9_900, 2))  # a reserve, and its release

    def test_a_stream_that_fails_is_released(self) -> None:
        async def read() -> None:
            async for _ in await self.call("broken", stream=True):
                pass

        with self.assertRaises(litellm.exceptions.MidStreamFallbackError):
            self.run_with(read)
        self.assertEqual((self.used(), len(self.relay.of("/v1/release"))), (0, 1))

    def test_a_hook_within_a_stream_cannot_end_it(self) -> None:
        raised = []

        class Ending(CustomLogger):
            async def async_post_call_streaming_deployment_hook(self, *_: object, **__: object) -> None:
                raised.append("that is enough")
                raise litellm.BudgetExceededError(1, 1)

        async def read() -> list[object]:
            litellm.callbacks.append(Ending())
            return [chunk async for chunk in await self.call("good", stream=True, stream_options={"include_usage": True})]

        chunks = self.run_with(read)
        self.assertEqual([chunk.choices[0].finish_reason for chunk in chunks if chunk.choices].count("stop"), 1)
        self.assertTrue(raised)
        self.assertEqual(self.used(), USED)


class WithoutAHook(LiteLlmTest):
    """The paths that docs/recipes.md names: the reservation ends by itself."""

    seconds = 2

    def expect_an_end_without_a_hook(self, work: Callable[[], Awaitable[object]]) -> None:
        self.run_with(work)
        wait_until(lambda: self.sluice.holds() == [], "nothing is held")
        self.assertEqual((len(self.reserved()), self.relay.of("/v1/commit"), self.relay.of("/v1/release")), (1, [], []))
        self.assertEqual(self.used(), 0)

    def test_a_stream_that_is_not_read_to_its_end(self) -> None:
        async def leave() -> None:
            words = await self.call("stuck", stream=True)
            await anext(aiter(words))
            await words.aclose()

        self.expect_an_end_without_a_hook(leave)

    def test_a_task_that_is_cancelled(self) -> None:
        async def cancel() -> None:
            call = asyncio.create_task(self.call("stuck"))
            while self.openai.requests == 0:
                await asyncio.sleep(0.01)
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call

        self.expect_an_end_without_a_hook(cancel)

    def test_calls_that_are_not_asynchronous_are_not_counted(self) -> None:
        litellm.callbacks = [Budget(f"http://127.0.0.1:{self.relay.port}")]
        litellm.completion(**self.deployment("good"), messages=MESSAGES, user="acme")
        self.assertEqual((self.openai.requests, self.relay.asked), (1, []))


if __name__ == "__main__":
    unittest.main()
