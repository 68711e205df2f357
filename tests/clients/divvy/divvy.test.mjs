// Divvy's own client, unchanged, against the real server.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import test from 'node:test';

import Client from '@button/divvy-client';

import { Server, policyFile, repository } from './server.mjs';

const limits = { timeout: 30_000 };

// A server with this policy, stopped at the end of the test.
async function serve(t, text) {
  return serveFile(t, await policyFile(t, text));
}

async function serveFile(t, path, port = 0) {
  const server = await Server.start(path, port);
  t.after(() => server.stop());
  return server;
}

// A client of the server, closed at the end of the test. It keeps the errors that it emits.
function connect(t, server, host = '127.0.0.1') {
  const client = new Client(host, server.port, { defaultCommandTimeoutMillis: 5000 });
  client.errors = [];
  client.on('error', (error) => client.errors.push(error));
  t.after(() => client.close());
  return client;
}

// Sends hits one after the other and compares the replies; a reset may have run down by a few seconds.
async function converse(client, session) {
  for (const [operation, isAllowed, currentCredit, resetSeconds] of session) {
    const reply = await client.hit(operation);
    const what = `${JSON.stringify(operation)} gave ${JSON.stringify(reply)}`;
    assert.equal(reply.isAllowed, isAllowed, what);
    assert.equal(reply.currentCredit, currentCredit, what);
    assert.ok(reply.nextResetSeconds <= resetSeconds && reply.nextResetSeconds >= resetSeconds - 5, what);
  }
}

const get = (path, more = {}) => ({ method: 'GET', path, ...more });

for (const name of ['example-config.ini', 'example-config.json']) {
  test(`the documented sessions, by ${name}`, limits, async (t) => {
    const client = connect(t, await serveFile(t, join(repository, 'examples', name)), 'localhost');
    await converse(client, [
      [get('/status'), true, 999, 60],
      [get('/status'), true, 998, 60],
      [get('/pantry/cookies', { ip: '192.168.1.1' }), true, 2, 3600],
      [get('/pantry/cookies', { ip: '192.168.1.1' }), true, 1, 3600],
      [get('/pantry/cookies', { ip: '192.168.1.1' }), true, 0, 3600],
      [get('/pantry/cookies', { ip: '192.168.1.1' }), false, 0, 3600],
      [get('/pantry/cookies', { ip: '4.3.2.1' }), true, 2, 3600],
    ]);
    await converse(client, [
      [get('/pantry/cookies/chocolate-chip', { ip: '10.0.0.7' }), true, 2, 3600],
      [get('/pantry/cookies/chocolate-chip', { ip: '10.0.0.7' }), true, 1, 3600],
      [get('/pantry/cookies/oatmeal', { ip: '10.0.0.7' }), true, 0, 3600],
      [get('/pantry/cookies/cricket-flavored', { ip: '10.0.0.7' }), false, 0, 3600],
      [get('/pantry/cookies/oatmeal', { ip: '10.0.0.8' }), true, 2, 3600],
    ]);
    assert.deepEqual(client.errors, []);
  });
}

test('says what it listens on, and ends cleanly with a client connected', limits, async (t) => {
  const path = await policyFile(t, '[default]\ncreditLimit = 5\nresetSeconds = 60\n');
  const server = await Server.start(path);
  t.after(() => server.stop());
  const announced = server.stdout.findIndex((line) => /^Listening on port TCP port \d+, embedded store$/.test(line));
  const bound = server.stdout.findIndex((line) => line.startsWith('sluice: divvy listening on '));
  assert.ok(announced >= 0 && announced < bound, server.stdout.join('\n'));
  const client = connect(t, server);
  client.autoReconnect = false;
  await client.hit({ a: 'b' });
  const gone = once(client, 'disconnected');
  assert.deepEqual(await server.stop(), { code: 0, signal: null });
  await gone;
});

test('a limit of nothing denies, and says that no reset will help', limits, async (t) => {
  const server = await serve(t, `
[path=/forbidden]
creditLimit = 0
resetSeconds = 60

[default]
creditLimit = 2
resetSeconds = 60
`);
  const client = connect(t, server);
  const never = { isAllowed: false, currentCredit: 0, nextResetSeconds: -1 };
  assert.deepEqual(await client.hit({ path: '/forbidden' }), never);
  assert.deepEqual(await client.hit({ path: '/forbidden' }), never);
  await converse(client, [
    [{ path: '/elsewhere' }, true, 1, 60],
    [{}, true, 0, 60],
    [undefined, false, 0, 60],
  ]);
});

test('a thousand hits over ten connections get exactly the credit there is', limits, async (t) => {
  const server = await serve(t, `
[path=/race ip=*]
creditLimit = 700
resetSeconds = 3600
actorField = ip

[default]
creditLimit = 0
resetSeconds = 0
`);
  // A hundred hits each, the most that the client allows to be pending.
  const clients = Array.from({ length: 10 }, () => connect(t, server));
  const hits = clients.flatMap((client) =>
    Array.from({ length: 100 }, () => client.hit({ path: '/race', ip: '10.1.2.3' })));
  const replies = await Promise.all(hits);
  const allowed = replies.filter((reply) => reply.isAllowed);
  assert.equal(replies.length, 1000);
  assert.equal(allowed.length, 700);
  const credits = allowed.map((reply) => reply.currentCredit).sort((a, b) => b - a);
  assert.deepEqual(credits, Array.from({ length: 700 }, (_, i) => 699 - i), 'each credit is given once');
  assert.ok(replies.every((reply) => reply.isAllowed || reply.currentCredit === 0));
  assert.equal((await clients[0].hit({ path: '/race', ip: '10.1.2.4' })).currentCredit, 699);
});

test('pipelined hits of one connection are answered in their order', limits, async (t) => {
  const server = await serve(t, `
[path=/counted]
creditLimit = 50
resetSeconds = 60

[path=/never]
creditLimit = 0
resetSeconds = 0

[default]
creditLimit = 1000
resetSeconds = 60
`);
  const client = connect(t, server);
  const replies = await Promise.all(
    Array.from({ length: 99 }, (_, i) => client.hit({ path: ['/counted', '/never', '/other'][i % 3] })));
  replies.forEach((reply, i) => {
    const turn = Math.floor(i / 3);
    assert.equal(reply.currentCredit, [49 - turn, 0, 999 - turn][i % 3], `reply ${i}`);
    assert.equal(reply.isAllowed, i % 3 !== 1, `reply ${i}`);
  });
});

test('a canary counts and does not decide', limits, async (t) => {
  const server = await serve(t, `
[method=GET path=/pantry/cookies/special-cookie]
creditLimit = 1
resetSeconds = 86400
comment = 'canary: 1 request per day for GET /pantry/cookies/special-cookie'
matchPolicy = canary  # <----- Canary this rule, don't take action on it.

[method=GET path=/pantry/cookies/* ip=*]
creditLimit = 3
resetSeconds = 3600
actorField = ip

[default]
creditLimit = 0
resetSeconds = 0
`);
  const special = get('/pantry/cookies/special-cookie', { ip: '10.0.0.7' });
  await converse(connect(t, server), [
    [special, true, 2, 3600],
    [special, true, 1, 3600],
    [special, true, 0, 3600],
    [special, false, 0, 3600],
    [get('/pantry/cookies/oatmeal', { ip: '10.0.0.8' }), true, 2, 3600],
  ]);
});

test('values with =, numbers, non-ASCII text and absent values', limits, async (t) => {
  const server = await serve(t, `
[path=/search who=*]
creditLimit = 2
resetSeconds = 60
actorField = who

[userId=10]
creditLimit = 7
resetSeconds = 60

[default]
creditLimit = 100
resetSeconds = 60
`);
  const client = connect(t, server);
  await converse(client, [
    [{ path: '/search', who: 'a=b&c=d' }, true, 1, 60],
    [{ path: '/search', who: 'a=b&c=d' }, true, 0, 60],
    [{ path: '/search', who: 'a=b&c=d' }, false, 0, 60],
    [{ path: '/search', who: 'a=b&c=e' }, true, 1, 60],
    [{ path: '/search', who: '=' }, true, 1, 60],
    [{ path: '/search', who: 'Zoë→🍪' }, true, 1, 60],
    [{ path: '/search', who: 'Zoë→🍪' }, true, 0, 60],
    [{ path: '/search', who: 'Zoë→🍰' }, true, 1, 60],
    [{ userId: 10 }, true, 6, 60],
    [{ userId: '10', extra: null, other: undefined }, true, 5, 60],
    [{ userId: 10.5 }, true, 99, 60],
    [{ 'x=y': 1 }, true, 98, 60],
  ]);
  assert.throws(() => client.hit({ who: '' }), /Invalid operation value/, 'the client itself refuses empty values');
});

test('an ERR rejects its own call, drops the calls behind it and costs them nothing', limits, async (t) => {
  const server = await serve(t, '[default]\ncreditLimit = 10\nresetSeconds = 60\n');
  const client = connect(t, server);
  // More entries than sluice accepts in one request; the client does not check that.
  const tooMany = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`k${i}`, i]));
  const [before, bad, behind] = await Promise.allSettled([client.hit({ a: 1 }), client.hit(tooMany), client.hit({ a: 1 })]);
  assert.equal(before.status, 'fulfilled');
  assert.equal(before.value.currentCredit, 9);
  assert.equal(bad.status, 'rejected');
  assert.match(bad.reason.message, /^ERR \S+ /);
  assert.equal(behind.status, 'rejected');
  assert.match(behind.reason.message, /Connection closed/);

  // The client connects again by itself, and other connections are not affected.
  assert.equal((await connect(t, server).hit({ a: 1 })).currentCredit, 8);
  if (!client.connected) await once(client, 'connected');
  assert.equal((await client.hit({ a: 1 })).currentCredit, 7);
});

test('a client too many survives, be it idle or asking, and is served when there is room', limits, async (t) => {
  const path = await policyFile(t, '[default]\ncreditLimit = 10\nresetSeconds = 3600\n');
  const server = await Server.start(path, 0, ['--connections', '1']);
  t.after(() => server.stop());
  const first = connect(t, server);
  assert.equal((await first.hit({ a: 1 })).currentCredit, 9);

  const tooMany = { message: /^ERR Internal Error: too many connections/ };
  // A line that the client does not expect would end this process, as the client does not catch the error.
  const late = connect(t, server);
  const gone = once(late, 'disconnected');
  late.connect();
  await gone;
  await assert.rejects(late.hit({ a: 1 }), tooMany);
  const asking = connect(t, server);
  await assert.rejects(asking.hit({ a: 1 }), tooMany);
  assert.deepEqual([...late.errors, ...asking.errors], []);

  assert.equal((await first.hit({ a: 1 })).currentCredit, 8);
  asking.close();
  late.close();
  first.close();
  await new Promise((resolve) => { setTimeout(resolve, 700); });  // a connection that is turned away stays half a second
  assert.equal((await connect(t, server).hit({ a: 1 })).currentCredit, 7);
});

test('a client reconnects after a restart on the same port and finds fresh counters', limits, async (t) => {
  const path = await policyFile(t, '[default]\ncreditLimit = 10\nresetSeconds = 3600\n');
  const first = await serveFile(t, path);
  const client = connect(t, first);
  assert.equal((await client.hit({ a: 1 })).currentCredit, 9);
  assert.equal((await client.hit({ a: 1 })).currentCredit, 8);

  const gone = once(client, 'disconnected');
  assert.deepEqual(await first.stop(), { code: 0, signal: null });
  await gone;
  const back = once(client, 'connected'); // after a second, as the client does not try more often
  const second = await serveFile(t, path, first.port);
  assert.equal(second.port, first.port);
  await back;
  assert.equal((await client.hit({ a: 1 })).currentCredit, 9);
});
