// limitd's own clients of both generations, unchanged, against the real server.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';

import express from 'express';

import { Server, repository } from './server.mjs';

const require = createRequire(import.meta.url);
const Client2 = require('limitd-client');
const Client1 = require('limitd-client-1');

const limits = { timeout: 60_000 };
const buckets = `
db: { inMemory: true }
buckets:
  ip: { size: 10, per_second: 5 }
  fixed: { size: 3 }
  slow: { size: 1, per_hour: 1 }
  free: { size: 100, unlimited: true }
`;

// A connected client, disconnected at the end of the test.
async function connect(t, Client, options) {
  const client = new Client(options);
  client.errors = [];
  client.on('error', (error) => client.errors.push(error));
  t.after(() => client.disconnect());
  await once(client, 'connect');
  return client;
}

// The method as a promise.
const ask = (client, method, ...words) => new Promise((resolve, reject) => {
  client[method](...words, (error, reply) => (error ? reject(error) : resolve(reply)));
});

function assertSoon(reset, seconds) {
  const left = reset - Date.now() / 1000;
  assert.ok(left > seconds - 2 && left < seconds + 2, `reset is in ${left} s, expected ${seconds}`);
}

const pick = ({ conformant, delayed, remaining, limit }) => ({ conformant, delayed: Boolean(delayed), remaining, limit });

const generations = [
  ['2.14.1', Client2, (server) => ({ hosts: [server.uri], timeout: 5000 }), 'Invalid bucket type'],
  ['1.8.1', Client1, (server) => ({ hosts: [server.uri], timeout: 5000 }), 'not a valid bucket type'],
];

for (const [version, Client, optionsFor, unknownType] of generations) {
  test(`${version}: every method`, limits, async (t) => {
    const server = await Server.start(t, buckets);
    const client = await connect(t, Client, optionsFor(server));

    const first = await ask(client, 'take', 'ip', '10.0.0.7');
    assert.deepEqual(pick(first), { conformant: true, delayed: false, remaining: 9, limit: 10 });
    assertSoon(first.reset, 1);
    const three = await ask(client, 'take', 'fixed', 'a', 3);
    assert.deepEqual(pick(three), { conformant: true, delayed: false, remaining: 0, limit: 3 });
    assert.equal(three.reset, 0);
    const refused = await ask(client, 'take', 'fixed', 'a');
    assert.deepEqual(pick(refused), { conformant: false, delayed: false, remaining: 0, limit: 3 });

    assert.equal((await ask(client, 'put', 'fixed', 'a', 1)).remaining, 1);
    assert.equal((await ask(client, 'put', 'fixed', 'a')).remaining, 3);
    await ask(client, 'take', 'fixed', 'b', 2);
    assert.equal((await ask(client, 'reset', 'fixed', 'b')).remaining, 3);

    const all = await ask(client, 'take', 'slow', 'k');
    assertSoon(all.reset, 3600);
    const free = await ask(client, 'take', 'free', 'k', 1000);
    assert.deepEqual(pick(free), { conformant: true, delayed: false, remaining: 100, limit: 100 });

    await ask(client, 'take', 'fixed', 'list-1');
    await ask(client, 'take', 'fixed', 'list-2', 2);
    const { items } = await ask(client, 'status', 'fixed', 'list-');
    assert.deepEqual(items.map(({ instance, remaining, limit }) => [instance, remaining, limit]),
      [['list-1', 2, 3], ['list-2', 1, 3]]);
    await ask(client, 'ping');
    if (client.get) {
      const got = await ask(client, 'get', 'fixed', 'list-2');
      assert.deepEqual([got.remaining, got.reset, got.limit], [1, 0, 3]);
    }
    assert.deepEqual(client.errors, []);
  });

  test(`${version}: an unknown type is an error, and the connection goes on`, limits, async (t) => {
    const server = await Server.start(t, buckets);
    const client = await connect(t, Client, optionsFor(server));
    for (const method of ['take', 'wait', 'put', 'status'])
      await assert.rejects(ask(client, method, 'nobody', 'k'), (error) => error.message.includes(unknownType));
    assert.equal((await ask(client, 'take', 'fixed', 'k')).remaining, 2);
  });

  test(`${version}: WAIT is answered when the units are there, and holds up nobody`, limits, async (t) => {
    const server = await Server.start(t, buckets);
    const client = await connect(t, Client, optionsFor(server));
    await ask(client, 'take', 'ip', 'w', 10);
    const begin = Date.now();
    let answered = false;
    const waiting = ask(client, 'wait', 'ip', 'w', 3).then((reply) => { answered = true; return reply; });
    await ask(client, 'ping');
    assert.ok(!answered, 'the ping came behind the wait');
    const reply = await waiting;
    const took = Date.now() - begin;
    assert.deepEqual(pick(reply), { conformant: true, delayed: true, remaining: 0, limit: 10 });
    assert.ok(took >= 550 && took < 1500, `took ${took} ms instead of 600`);
    const atOnce = await ask(client, 'wait', 'ip', 'fresh');
    assert.deepEqual(pick(atOnce), { conformant: true, delayed: false, remaining: 9, limit: 10 });
    // A put releases a request that waits for a fixed bucket.
    await ask(client, 'take', 'fixed', 'w', 3);
    const released = ask(client, 'wait', 'fixed', 'w', 2);
    await ask(client, 'put', 'fixed', 'w', 2);
    assert.equal((await released).delayed, true);
  });
}

test('fire and forget: a put without a callback fills, and is not answered', limits, async (t) => {
  const server = await Server.start(t, buckets);
  const client = await connect(t, Client2, server.uri);
  await ask(client, 'take', 'fixed', 'f', 3);
  let responses = 0;
  client.on('response', () => { ++responses; });
  client.put('fixed', 'f');
  assert.equal((await ask(client, 'get', 'fixed', 'f')).remaining, 3);
  client.put('nobody', 'f');
  await ask(client, 'ping');
  assert.equal(responses, 2);
  assert.deepEqual(client.errors, []);
});

test('as many replies as requests, in numbers', limits, async (t) => {
  const server = await Server.start(t, 'db: { inMemory: true }\nbuckets: { race: { size: 700 } }\n');
  const clients = await Promise.all(Array.from({ length: 10 }, () =>
    connect(t, Client2, { hosts: [server.uri], timeout: 20_000, retry: false })));
  const replies = await Promise.all(clients.flatMap((client) =>
    Array.from({ length: 100 }, () => ask(client, 'take', 'race', 'k'))));
  assert.equal(replies.filter(({ conformant }) => conformant).length, 700);
});

test('two servers: the second answers when the first is gone', limits, async (t) => {
  const first = await Server.start(t, buckets);
  const second = await Server.start(t, buckets);
  const client = await connect(t, Client2, { hosts: [first.uri, second.uri], timeout: 5000 });
  // All are connected, and the first live one of the list is used.
  await ask(client, 'take', 'fixed', 'k', 2);
  await first.stop();
  let reply;
  for (let attempt = 0; !reply && attempt < 50; ++attempt)
    reply = await ask(client, 'get', 'fixed', 'k').catch(() => undefined);
  assert.equal(reply?.remaining, 3, 'of the second server, which has its own counters');
});

test('a ring of two shards', limits, async (t) => {
  const servers = [await Server.start(t, buckets), await Server.start(t, buckets)];
  const client = new Client2({ shard: { hosts: servers.map(({ uri }) => uri) }, timeout: 5000 });
  const shards = Object.values(client.clients);
  t.after(() => shards.forEach((shard) => shard.disconnect()));
  await Promise.all(shards.map((shard) => once(shard, 'connect')));
  const keys = Array.from({ length: 40 }, (_, i) => `shard-${i}`);
  for (const key of keys) assert.equal((await ask(client, 'take', 'fixed', key)).remaining, 2);
  for (const key of keys) assert.equal((await ask(client, 'get', 'fixed', key)).remaining, 2);
  const counts = await Promise.all(shards.map(async (shard) =>
    (await ask(shard, 'status', 'fixed', 'shard-')).items.length));
  assert.equal(counts[0] + counts[1], keys.length);
  assert.ok(counts[0] > 0 && counts[1] > 0, `all on one shard: ${counts}`);
  const { items, errors } = await ask(client, 'status', 'fixed', 'shard-');
  assert.deepEqual(errors, []);
  assert.deepEqual(items.map(({ instance }) => instance).sort(), [...keys].sort());
});

test('the circuit breaker opens after a stop, and the client finds its way back', limits, async (t) => {
  const server = await Server.start(t, buckets);
  const client = await connect(t, Client2, {
    hosts: [server.uri], timeout: 1000, retry: false, breaker: { maxFailures: 3, cooldown: 200, maxCooldown: 400 },
  });
  await ask(client, 'take', 'fixed', 'k');
  const gone = once(client, 'disconnect');
  assert.equal(await server.stop(), 0);
  await gone;
  const trip = once(client, 'trip');
  for (let i = 0; i < 4; ++i) await assert.rejects(ask(client, 'take', 'fixed', 'k'));
  await trip;
  await assert.rejects(ask(client, 'take', 'fixed', 'k'), /circuit|open/i);

  const back = once(client, 'connect');
  await Server.start(t, buckets, server.port);
  await back;
  let reply;
  for (const until = Date.now() + 10_000; !reply && Date.now() < until;) {
    reply = await ask(client, 'take', 'fixed', 'k').catch(() => undefined);
    if (!reply) await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  assert.equal(reply?.remaining, 2, 'of the new server, which has forgotten');
});

test('a web application as the manual has it: headers, and 429', limits, async (t) => {
  const server = await Server.startFile(t, join(repository, 'examples/limitd.yaml'));
  const client = await connect(t, Client2, server.uri);
  const app = express();
  app.use((request, response, next) => {
    client.take('user', request.query.user, (error, { conformant, limit, remaining, reset } = {}) => {
      if (error) return next(error);
      response.set({ 'X-RateLimit-Limit': limit, 'X-RateLimit-Remaining': remaining, 'X-RateLimit-Reset': reset });
      return conformant ? next() : response.status(429).send('too many requests');
    });
  });
  app.get('/', (request, response) => response.send('hello'));
  const web = http.createServer(app).listen(0, '127.0.0.1');
  t.after(() => web.close());
  await once(web, 'listening');
  const get = (user) => fetch(`http://127.0.0.1:${web.address().port}/?user=${user}`);

  const first = await get('ann');
  assert.equal(first.status, 200);
  assert.equal(await first.text(), 'hello');
  assert.equal(first.headers.get('x-ratelimit-limit'), '10');
  assert.equal(first.headers.get('x-ratelimit-remaining'), '9');
  assertSoon(Number(first.headers.get('x-ratelimit-reset')), 1);
  const replies = await Promise.all(Array.from({ length: 30 }, () => get('ann')));
  const refused = replies.filter(({ status }) => status === 429);
  assert.ok(refused.length > 0 && refused.length < 30, `${refused.length} of 30 were refused`);
  assert.equal(refused[0].headers.get('x-ratelimit-remaining'), '0');
  assert.equal((await get('bob')).status, 200);
});
