"""Messages of Envoy's rate limit service for Python, made by protoc of proto/ when this is imported."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sluice_server import ROOT

RATE_LIMIT, HEALTH = "envoy.service.ratelimit.v3.", "grpc.health.v1."
SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def _described() -> descriptor_pool.DescriptorPool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "envoy.binpb"
        subprocess.run(["protoc", f"--proto_path={ROOT / 'proto'}", "--include_imports", f"--descriptor_set_out={path}",
                        "envoy/service/ratelimit/v3/rls.proto", "grpc/health/v1/health.proto",
                        "grpc/reflection/v1/reflection.proto"], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


_POOL = _described()


def message_of(name: str):
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


RateLimitRequest = message_of(RATE_LIMIT + "RateLimitRequest")
RateLimitResponse = message_of(RATE_LIMIT + "RateLimitResponse")
HealthCheckRequest = message_of(HEALTH + "HealthCheckRequest")
HealthCheckResponse = message_of(HEALTH + "HealthCheckResponse")
OK, OVER_LIMIT = RateLimitResponse.OK, RateLimitResponse.OVER_LIMIT
SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


def request(*descriptors: Sequence[tuple[str, str]], domain: str = "shop", hits: int = 0):
    """`descriptors`: each a list of keys and values; `hits`: for each, 0 for the default."""
    made = RateLimitRequest(domain=domain, hits_addend=hits)
    for entries in descriptors:
        descriptor = made.descriptors.add()
        for key, value in entries:
            descriptor.entries.add(key=key, value=value)
    return made
