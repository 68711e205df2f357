// grpc-js, unchanged, with messages that its proto-loader makes, against the real `sluice envoy`.
import assert from 'node:assert/strict';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

import { limitMillis, start, within } from './server.mjs';

const limits = { timeout: limitMillis };
const { status } = grpc;
const loaded = grpc.loadPackageDefinition(protoLoader.loadSync([
  'envoy/service/ratelimit/v3/rls.proto', 'grpc/health/v1/health.proto',
], {
  includeDirs: [fileURLToPath(new URL('../../../../proto', import.meta.url))],
  keepCase: true,
  enums: String,
  defaults: true,
}));
const { RateLimitService } = loaded.envoy.service.ratelimit.v3;
const { Health } = loaded.grpc.health.v1;

// One channel, hence one connection.
function connect(server, Service = RateLimitService, options = {}) {
  const client = new Service(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure(), options);
  server.clients.push(() => client.close());
  return client;
}

// The answer to a call, or its error.
function call(client, method, message, options = {}) {
  return new Promise((resolve, reject) => {
    client[method](message, { deadline: Date.now() + limitMillis, ...options },
      (error, response) => (error ? reject(error) : resolve(response)));
  });
}

const ask = (client, message, options) => call(client, 'ShouldRateLimit', message, options);

// Each descriptor is a list of keys and values.
function request(...descriptors) {
  return {
    domain: 'shop',
    descriptors: descriptors.map((pairs) => ({ entries: pairs.map(([key, value]) => ({ key, value })) })),
  };
}

async function assertRefused(promise, code, details) {
  const error = await promise.then(() => assert.fail('it was answered'), (reason) => reason);
  assert.equal(status[error.code], status[code], error.message);
  if (details !== undefined) assert.equal(error.details, details);
}

test('up to the limit', limits, async (t) => {
  const client = connect(await start(t));
  const told = [];
  for (let i = 0; i < 7; ++i) told.push(await ask(client, request([['user', 'a']])));
  assert.deepEqual(told.map((one) => one.overall_code), [...Array(5).fill('OK'), 'OVER_LIMIT', 'OVER_LIMIT']);
  assert.deepEqual(told.map((one) => one.statuses[0].limit_remaining), [4, 3, 2, 1, 0, 0, 0]);
  const { current_limit: limit, duration_until_reset: reset } = told[0].statuses[0];
  assert.deepEqual([limit.requests_per_unit, limit.unit, limit.name], [5, 'YEAR', 'of_user']);
  assert.ok(Number(reset.seconds) >= 1 && Number(reset.seconds) <= 365 * 86_400);
});

test('several descriptors, each charged alone', limits, async (t) => {
  const client = connect(await start(t));
  const both = request([['tenant', 't'], ['path', '/cart']], [['tenant', 't']], [['trusted', 'x']], [['none', 'x']]);
  const told = [await ask(client, both), await ask(client, both), await ask(client, both)];
  assert.deepEqual(told.map((one) => one.overall_code), ['OK', 'OK', 'OVER_LIMIT']);
  assert.deepEqual(told[2].statuses.map((one) => one.code), ['OVER_LIMIT', 'OK', 'OK', 'OK']);
  assert.deepEqual(told.map((one) => one.statuses[1].limit_remaining), [599, 598, 597]);
  assert.equal(told[0].statuses[2].limit_remaining, 2 ** 32 - 1);
  assert.equal(told[0].statuses[3].current_limit, null);
});

test('hits, peeks and refunds', limits, async (t) => {
  const client = connect(await start(t));
  const remaining = async (message) => (await ask(client, message)).statuses[0].limit_remaining;
  const with_ = (fields) => {
    const message = request([['user', 'a']]);
    Object.assign(message.descriptors[0], fields);
    return message;
  };
  assert.equal(await remaining({ ...request([['user', 'a']]), hits_addend: 3 }), 2);
  assert.equal(await remaining(with_({ hits_addend: { value: 0 } })), 2);
  assert.equal(await remaining(with_({ hits_addend: { value: 1 } })), 1);
  assert.equal(await remaining(with_({ hits_addend: { value: 2 }, is_negative_hits: true })), 3);
  const over = await ask(client, with_({ hits_addend: { value: 4 } }));
  assert.equal(over.overall_code, 'OVER_LIMIT');
});

test('gzip', limits, async (t) => {
  const client = connect(await start(t), RateLimitService, {
    'grpc.default_compression_algorithm': grpc.compressionAlgorithms.gzip,
  });
  const much = request(...Array.from({ length: 500 }, (_, i) => [['much', `value-${i}`]]));
  for (const left of [999_999, 999_998]) {
    const told = await ask(client, much);
    assert.equal(told.statuses.length, 500);
    assert.equal(told.statuses[499].limit_remaining, left);
  }
});

test('a deadline', limits, async (t) => {
  const server = await start(t);
  const client = connect(server);
  await ask(client, request([['user', 'a']]));
  await server.held(() => assertRefused(
    ask(client, request([['user', 'a']]), { deadline: Date.now() + 200 }), status.DEADLINE_EXCEEDED));
  // The connection stays open, and a request that has timed out is charged once at most.
  const left = (await ask(client, request([['user', 'a']]))).statuses[0].limit_remaining;
  assert.ok(left === 2 || left === 3, String(left));
});

test('a thousand streams on one connection', limits, async (t) => {
  const server = await start(t);
  const client = connect(server);
  await ask(client, request([['tenant', 'warm']]));  // so that the client knows how many streams are allowed
  let answered = 0;
  const calls = await server.held(async () => {
    const begun = Array.from({ length: 1000 }, () => ask(client, request([['tenant', 't']])));
    for (const one of begun) one.then(() => { ++answered; }, () => {});
    // Waits until the calls are written, which takes some turns of the event loop.
    for (let i = 0; i < 50; ++i) await new Promise(setImmediate);
    assert.equal(answered, 0);
    return begun;
  }).then((begun) => within(Promise.all(begun), 'a thousand calls'));
  assert.equal(calls.filter((one) => one.overall_code === 'OK').length, 600);
  const left = calls.map((one) => one.statuses[0].limit_remaining).sort((a, b) => a - b);
  assert.deepEqual(left, [...Array(400).fill(0), ...Array.from({ length: 600 }, (_, i) => i)]);
});

test('health', limits, async (t) => {
  const server = await start(t);
  const client = connect(server, Health);
  for (const service of ['', 'ratelimit'])
    assert.equal((await call(client, 'Check', { service })).status, 'SERVING');
  await assertRefused(call(client, 'Check', { service: 'other' }), status.NOT_FOUND, 'unknown service');

  const watch = client.Watch({ service: 'ratelimit' });
  const told = [];
  const over = new Promise((resolve) => {
    watch.on('error', resolve);
    watch.on('end', resolve);
  });
  const first = new Promise((resolve) => {
    watch.on('data', ({ status: one }) => {
      told.push(one);
      resolve();
    });
  });
  assert.equal(await within(Promise.race([first, over]), 'the first answer of Watch'), undefined);
  assert.deepEqual(told, ['SERVING']);
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
  await within(over, 'the end of Watch');
  assert.ok(told.length === 1 || (told.length === 2 && told[1] === 'NOT_SERVING'), String(told));
});

test('a method that is unknown', limits, async (t) => {
  const { ShouldRateLimit } = RateLimitService.service;
  const path = '/envoy.service.ratelimit.v3.RateLimitService/NoSuchMethod';
  const NoSuchMethod = { ...ShouldRateLimit, originalName: 'NoSuchMethod', path };
  const client = connect(await start(t), grpc.makeClientConstructor({ NoSuchMethod }));
  await assertRefused(call(client, 'NoSuchMethod', request([['user', 'a']])), status.UNIMPLEMENTED,
    'unknown method NoSuchMethod for service envoy.service.ratelimit.v3.RateLimitService');
});

test('the end of the server under traffic', limits, async (t) => {
  const server = await start(t);
  const clients = Array.from({ length: 4 }, () => connect(server, RateLimitService, { 'grpc.use_local_subchannel_pool': 1 }));
  let answered = 0;
  const refusals = clients.map(async (client) => {
    for (;;) {
      try {
        assert.equal((await ask(client, request([['much', 'a']]))).overall_code, 'OK');
      } catch (error) {
        return error;
      }
      ++answered;
    }
  });
  const end = Date.now() + limitMillis;
  while (answered < 200) {
    assert.ok(Date.now() < end, 'no traffic');
    await new Promise(setImmediate);
  }
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
  for (const error of await within(Promise.all(refusals), 'the refusals'))
    assert.equal(status[error.code], 'UNAVAILABLE', error.message);
});
