// node-redis 5 (the package `redis`), unchanged, against the real server, by both versions of the protocol.
import assert from 'node:assert/strict';
import test from 'node:test';

import { createClient, createClientPool } from 'redis';

import { assertReply, start } from './server.mjs';

const limits = { timeout: 60_000 };

// A connected client.
async function connect(server, options) {
  const client = createClient({ url: `redis://127.0.0.1:${server.port}`, ...options });
  client.errors = [];
  client.on('error', (error) => client.errors.push(error));
  server.clients.push(() => client.isOpen && client.destroy());
  await client.connect();
  return client;
}

const throttle = (...words) => ['CL.THROTTLE', ...words.map(String)];

for (const RESP of [2, 3]) {
  test(`RESP ${RESP}: connects, and every throttle`, limits, async (t) => {
    const server = await start(t);
    const client = await connect(server, { RESP });
    assert.ok(client.isReady);
    assert.equal(await client.ping(), 'PONG');
    assert.match(await client.sendCommand(['CLIENT', 'INFO']), new RegExp(` resp=${RESP} .*lib-name=node-redis`));
    assertReply(await client.sendCommand(throttle('k', 1, 1, 60)), [0, 2, 1, -1, 60]);
    assertReply(await client.sendCommand(throttle('k', 1, 1, 60)), [0, 2, 0, -1, 120]);
    assertReply(await client.sendCommand(throttle('k', 1, 1, 60)), [1, 2, 0, 60, 120]);
    assertReply(await client.sendCommand(['THROTTLE', 'k', '2', '1', '60', '2']), [1, 2, 0, 120, 0]);
    assertReply(await client.sendCommand(['THROTTLE', 'k', '2', '1', '60']), [0, 2, 0, 120, 60]);
    assertReply(await client.sendCommand(['GCRA', 'k', '0', '1', '60']), [0, 1, 0, -1, 60]);
    assertReply(await client.sendCommand(['GCRA', 'k', '0', '1', '60']), [1, 1, 0, 60, 60]);
    await assert.rejects(client.sendCommand(throttle('k', 1, 0, 60)),
      { message: 'Cell error: Store error: Zero rates are not supported' });
    assert.equal(await client.echo('still there'), 'still there');
    assert.deepEqual(client.errors, []);
  });

  test(`RESP ${RESP}: what is asked at once is answered in order`, limits, async (t) => {
    const server = await start(t);
    const client = await connect(server, { RESP });
    const replies = await Promise.all(Array.from({ length: 20 }, () => client.sendCommand(throttle('k', 9, 1, 60))));
    assert.deepEqual(replies.map(([limited]) => limited), [...Array(10).fill(0), ...Array(10).fill(1)]);
    assert.deepEqual(replies.map(([, , remaining]) => remaining).slice(0, 10), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  });

  test(`RESP ${RESP}: multi and its pipeline`, limits, async (t) => {
    const server = await start(t);
    const client = await connect(server, { RESP });
    const [first, pong, denied, other] = await client.multi()
      .addCommand(throttle('k', 0, 1, 60)).ping().addCommand(throttle('k', 0, 1, 60)).addCommand(throttle('l', 0, 1, 60))
      .exec();
    assertReply(first, [0, 1, 0, -1, 60]);
    assert.equal(pong, 'PONG');
    assertReply(denied, [1, 1, 0, 60, 60]);
    assertReply(other, [0, 1, 0, -1, 60]);
    const [again, looked] = await client.multi()
      .addCommand(throttle('k', 0, 1, 60)).addCommand(throttle('m', 4, 1, 60, 0)).execAsPipeline();
    assertReply(again, [1, 1, 0, 60, 60]);
    assertReply(looked, [0, 5, 5, -1, 0]);
    await assert.rejects(client.multi().addCommand(throttle('n', 0, 1, 60)).addCommand(['NOSUCH']).exec(),
      /unknown command 'NOSUCH'/);  // EXECABORT follows
    assertReply(await client.sendCommand(throttle('n', 0, 1, 60, 0)), [0, 1, 1, -1, 0]);
  });

  test(`RESP ${RESP}: a name, a database, what the client reads of the server`, limits, async (t) => {
    const server = await start(t);
    const client = await connect(server, { RESP, name: 'shop', database: 3, pingInterval: 20 });
    assert.equal(await client.clientGetName(), 'shop');
    const own = await client.clientInfo();
    assert.deepEqual([own.name, own.db, own.id], ['shop', 3, await client.clientId()]);
    const hello = await client.hello();
    assert.deepEqual([hello.server, hello.proto, hello.role], ['sluice', RESP, 'master']);
    assert.equal((await client.command()).length, await client.commandCount());
    const [info] = await client.commandInfo(['cl.throttle']);
    assert.deepEqual([info.name, info.firstKeyIndex, info.lastKeyIndex], ['cl.throttle', 1, 1]);
    await assert.rejects(client.commandGetKeys(throttle('k', 1, 1, 60)), /ERR COMMAND GETKEYS is not supported; /);
    assert.match(await client.info('persistence'), /\r\nloading:0\r\n/);
    assert.match((await client.time()).join(' '), /^\d{10} \d{1,6}$/);
    assert.deepEqual(await client.configGet('save'), Object.create(null));
    assertReply(await client.sendCommand(throttle('k', 0, 1, 60)), [0, 1, 0, -1, 60]);
    await client.select(4);
    assertReply(await client.sendCommand(throttle('k', 0, 1, 60)), [0, 1, 0, -1, 60]);
    assert.deepEqual(client.errors, []);
    await client.close();
  });

  test(`RESP ${RESP}: a pool shares counters`, limits, async (t) => {
    const server = await start(t);
    const pool = createClientPool({ url: `redis://127.0.0.1:${server.port}`, RESP }, { minimum: 3, maximum: 8 });
    const errors = [];
    pool.on('error', (error) => errors.push(error));
    server.clients.push(() => pool.destroy());
    await pool.connect();
    const replies = await Promise.all(Array.from({ length: 40 }, () => pool.sendCommand(throttle('k', 9, 1, 60))));
    assert.equal(replies.filter(([limited]) => limited === 0).length, 10);
    assert.ok(pool.totalClients > 1);
    await pool.close();  // waits for the clients that still connect; destroy() would fail them
    assert.deepEqual(errors, []);
  });
}

test('DEL and TTL of a key that was throttled', limits, async (t) => {
  const server = await start(t);
  const client = await connect(server);
  assert.equal(await client.ttl('k'), -2);
  assertReply(await client.sendCommand(throttle('k', 0, 1, 60)), [0, 1, 0, -1, 60]);
  assert.equal(await client.exists('k'), 1);
  assert.equal(await client.del('k'), 1);
  assertReply(await client.sendCommand(throttle('k', 0, 1, 60)), [0, 1, 0, -1, 60]);
});
