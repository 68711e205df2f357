// ioredis 5, unchanged, against the real server: its defaults, and the ways to send many commands that it has.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';

import { Redis } from 'ioredis';

import { assertReply, start } from './server.mjs';

const limits = { timeout: 60_000 };

// A client that connects when it is used.
function client(server, options = {}) {
  const redis = new Redis({ port: server.port, host: '127.0.0.1', lazyConnect: true, ...options });
  redis.errors = [];
  redis.on('error', (error) => redis.errors.push(error));
  server.clients.push(() => redis.disconnect());
  return redis;
}

test('the defaults, and every throttle', limits, async (t) => {
  const server = await start(t);
  const redis = new Redis(server.port, '127.0.0.1');
  server.clients.push(() => redis.disconnect());
  assert.equal(redis.options.enableReadyCheck, true);
  await once(redis, 'ready');
  // The parts of INFO that the client's ready check reads.
  assert.match(await redis.info(), /\r\nredis_version:\d+\.\d+\.\d+\r\n(.*\r\n)*loading:0\r\n/);
  assert.equal(await redis.ping(), 'PONG');

  assertReply(await redis.call('CL.THROTTLE', 'user:17', 1, 1, 60), [0, 2, 1, -1, 60]);
  assertReply(await redis.call('CL.THROTTLE', 'user:17', 1, 1, 60), [0, 2, 0, -1, 120]);
  assertReply(await redis.call('CL.THROTTLE', 'user:17', 1, 1, 60), [1, 2, 0, 60, 120]);
  assertReply(await redis.call('throttle', 'user:17', '2', '1', '60', '2'), [1, 2, 0, 120, 0]);
  assertReply(await redis.call('throttle', 'user:17', '2', '1', '60'), [0, 2, 0, 120, 60]);
  assertReply(await redis.call('GCRA', 'user:17', 1, 1, 60.5, 'TOKENS', 2), [0, 2, 0, -1, 121]);
  assertReply(await redis.call('GCRA', 'user:17', 1, 1, 60.5), [1, 2, 0, 61, 121]);
});

test('a command of a module that is added by its name', limits, async (t) => {
  const server = await start(t);
  const redis = client(server);
  redis.addBuiltinCommand('cl.throttle');
  assertReply(await redis['cl.throttle']('k', 0, 1, 60), [0, 1, 0, -1, 60]);
  assertReply(await redis['cl.throttle']('k', 0, 1, 60), [1, 1, 0, 60, 60]);
  // The same counter, in whichever case the client writes the command.
  assertReply(await redis.call('CL.THROTTLE', 'k', 0, 1, 60, 0), [0, 1, 0, -1, 60]);
});

test('lazyConnect and enableAutoPipelining', limits, async (t) => {
  const server = await start(t);
  const redis = client(server, { enableAutoPipelining: true });
  assert.equal(redis.status, 'wait');
  await redis.connect();
  const asked = Array.from({ length: 20 }, () => redis.call('CL.THROTTLE', 'k', 9, 1, 60));
  assert.equal(redis.autoPipelineQueueSize, 20);
  const replies = await Promise.all(asked);
  assert.deepEqual(replies.map(([limited]) => limited), [...Array(10).fill(0), ...Array(10).fill(1)]);
  assert.deepEqual(replies.map(([, , remaining]) => remaining).slice(0, 10), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  assert.deepEqual(redis.errors, []);
});

test('a pipeline, with an error in it', limits, async (t) => {
  const server = await start(t);
  const redis = client(server);
  const [first, unknown, second, wrong, pong, third] = await redis.pipeline()
    .call('CL.THROTTLE', 'k', 1, 1, 60)
    .call('NOSUCH', 'a')
    .call('CL.THROTTLE', 'k', 1, 1, 60)
    .call('CL.THROTTLE', 'k', 'x', 1, 60)
    .ping()
    .call('CL.THROTTLE', 'k', 1, 1, 60)
    .exec();
  assertReply(first[1], [0, 2, 1, -1, 60]);
  assert.equal(unknown[0].message, "ERR unknown command 'NOSUCH', with args beginning with: 'a' ");
  assertReply(second[1], [0, 2, 0, -1, 120]);
  assert.equal(wrong[0].message, "Cell error: Store error: Couldn't parse as integer: x");
  assert.deepEqual(pong, [null, 'PONG']);
  assertReply(third[1], [1, 2, 0, 60, 120]);
});

test('multi: what is denied undoes nothing', limits, async (t) => {
  const server = await start(t);
  const redis = client(server);
  const [first, denied, other] = await redis.multi()
    .call('CL.THROTTLE', 'k', 0, 1, 60)
    .call('CL.THROTTLE', 'k', 0, 1, 60)
    .call('CL.THROTTLE', 'l', 0, 1, 60)
    .exec();
  assertReply(first[1], [0, 1, 0, -1, 60]);
  assertReply(denied[1], [1, 1, 0, 60, 60]);
  assertReply(other[1], [0, 1, 0, -1, 60]);
});

test('multi: an unknown command takes nothing at all', limits, async (t) => {
  const server = await start(t);
  const redis = client(server);
  await assert.rejects(redis.multi().call('CL.THROTTLE', 'k', 0, 1, 60).call('NOSUCH').exec(), /EXECABORT/);
  assertReply(await redis.call('CL.THROTTLE', 'k', 0, 1, 60, 0), [0, 1, 1, -1, 0]);
});

test('multi without a pipeline', limits, async (t) => {
  const server = await start(t);
  const redis = client(server);
  assert.equal(await redis.multi({ pipeline: false }), 'OK');
  assert.equal(await redis.call('CL.THROTTLE', 'k', 0, 1, 60), 'QUEUED');
  const [[error, reply]] = await redis.exec();
  assert.equal(error, null);
  assertReply(reply, [0, 1, 0, -1, 60]);
});

test('a name, a database, keys of any bytes', limits, async (t) => {
  const server = await start(t);
  const named = client(server, { connectionName: 'shop', db: 3 });
  const plain = client(server);
  assert.equal(await named.client('GETNAME'), 'shop');
  assert.match(await named.client('INFO'), /(^| )name=shop .*(^| )db=3( |\n)/);
  const key = Buffer.from([0xff, 0x0d, 0x0a, 0x00]);
  assertReply(await named.callBuffer('CL.THROTTLE', key, 0, 1, 60), [0, 1, 0, -1, 60]);
  assertReply(await named.callBuffer('CL.THROTTLE', key, 0, 1, 60), [1, 1, 0, 60, 60]);
  // The number of the database is part of the counter's name.
  assertReply(await plain.callBuffer('CL.THROTTLE', key, 0, 1, 60), [0, 1, 0, -1, 60]);
  assert.deepEqual([...named.errors, ...plain.errors], []);
});

test('DEL and TTL of a key that was throttled', limits, async (t) => {
  const server = await start(t);
  const redis = client(server);
  assert.equal(await redis.ttl('k'), -2);
  assertReply(await redis.call('CL.THROTTLE', 'k', 0, 1, 60), [0, 1, 0, -1, 60]);
  const left = await redis.ttl('k');
  assert.ok(left > 0 && left <= 60, `TTL is ${left}`);
  assert.equal(await redis.exists('k'), 1);
  assert.equal(await redis.del('k', 'other'), 1);
  assertReply(await redis.call('CL.THROTTLE', 'k', 0, 1, 60), [0, 1, 0, -1, 60]);
});

test('a server that is started again is found again', limits, async (t) => {
  const server = await start(t);
  const redis = client(server, { retryStrategy: () => 50 });
  assertReply(await redis.call('CL.THROTTLE', 'k', 0, 1, 60), [0, 1, 0, -1, 60]);
  const closed = once(redis, 'close');
  await server.stop();
  await closed;
  const waiting = redis.call('CL.THROTTLE', 'k', 0, 1, 60);
  await start(t, server.port);
  assertReply(await waiting, [0, 1, 0, -1, 60]);  // its counters were in memory
  assert.equal(await redis.quit(), 'OK');
});
