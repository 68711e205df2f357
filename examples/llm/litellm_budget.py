"""Budgets of sluice for asynchronous calls through LiteLLM: what a call may use is reserved before it, and committed after it.

    litellm.callbacks = [Budget("http://127.0.0.1:8390")]
    await litellm.acompletion(..., user="acme", stream_options={"include_usage": True})
"""

import asyncio

import httpx
import litellm
from litellm.integrations.custom_logger import CustomLogger

TOKENS = 500  # of an answer to a call that has no bound of its own


class Budget(CustomLogger):
    def __init__(self, url, seconds=120):
        """`seconds`: more than a call takes, as nothing renews its reservation."""
        super().__init__()
        self.client, self.seconds = httpx.AsyncClient(base_url=url, timeout=5), seconds

    async def ask(self, path, kwargs, **body):
        """The answer of sluice. LiteLLM has an id for each attempt, and what is lost is sent again with the same."""
        for wait in (0.1, 1, None):
            try:
                answer = await self.client.post(path, json={"id": kwargs["litellm_call_id"], **body})
                if answer.status_code != 503 or wait is None:
                    return answer
            except httpx.TransportError:
                if wait is None:
                    raise
            await asyncio.sleep(wait)

    @staticmethod
    def entries(kwargs):
        return {"tenant": kwargs.get("user") or "nobody", "what": "tokens"}

    async def async_pre_call_deployment_hook(self, kwargs, call_type):
        """In front of each attempt, also those of a Router. What it raises is the call's exception."""
        prompt = litellm.token_counter(model=kwargs["model"], messages=kwargs.get("messages"), text=kwargs.get("input"))
        most = kwargs.get("max_completion_tokens") or kwargs.get("max_tokens") or TOKENS
        answer = await self.ask("/v1/reserve", kwargs, entries=self.entries(kwargs), n=prompt + most, ttl=self.seconds)
        if answer.status_code == 429:
            told = answer.json()
            why = f"refused by rule {told['rule']}"
            raise litellm.BudgetExceededError(told["limit"] - told["remaining"], told["limit"], message=why)
        answer.raise_for_status()

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        await self.ask("/v1/commit", kwargs, entries=self.entries(kwargs), n=response_obj.usage.total_tokens)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        await self.ask("/v1/release", kwargs)
