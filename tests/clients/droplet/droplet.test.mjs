// droplet's own client, unchanged, against the real server.
import assert from 'node:assert/strict';
import test from 'node:test';
import { promisify } from 'node:util';

import droplet from 'droplet';

import { Server, within } from './server.mjs';

const limits = { timeout: 30_000 };
const quiet = { info() {}, warn() {}, error() {} };
const periods = ['ls', 'lm', 'lh', 'ld', 'lw', 'lo'];
const sleep = (millis) => new Promise((resolve) => { setTimeout(resolve, millis); });

// A server, stopped at the end of the test.
async function serve(t, port = 0, flags = []) {
  const server = await Server.start(port, flags);
  t.after(() => server.stop());
  return server;
}

// A client of the server, closed at the end of the test; its calls are promises.
function connect(t, server, host = 'localhost') {
  const client = droplet.create_client({ url: `ws://${host}:${server.port}`, logger: quiet, reconnect_delay: 50 });
  t.after(() => client.close());
  let id = 0;
  const call = (what) => {
    const ask = promisify(client[what]);
    return (payload) => within(ask({ id: `r${id += 1}`, ...payload }), `${what} ${JSON.stringify(payload)}`);
  };
  return { client, take: call('take'), query: call('query') };
}

// A reply has all six periods, 0 for those that the request did not have.
const left = (some) => Object.fromEntries(periods.map((period) => [period, some[period] ?? 0]));
function same(reply, accept, some) {
  const { ls, lm, lh, ld, lw, lo } = reply;
  assert.deepEqual({ accept: reply.accept, ls, lm, lh, ld, lw, lo }, { accept, ...left(some) });
}

for (const host of ['localhost', '127.0.0.1', '[::1]']) {
  test(`the documented session, over ${host}`, limits, async (t) => {
    const { take } = connect(t, await serve(t), host);
    // Hours in place of the documented seconds: within seconds units would come back during the test.
    same(await take({ bucket: 'foo', id: 'a', lh: 100 }), true, { lh: 99 });
    same(await take({ bucket: 'foo', id: 'b', lh: 57, lo: 200 }), true, { lh: 57, lo: 199 });
    same(await take({ bucket: 'foo', id: 'c', lh: 57, ld: 500 }), true, { lh: 56, ld: 499 });
    same(await take({ bucket: 'foo', id: 'd', count: 0, lo: 200 }), true, { lo: 198 });
  });
}

for (const period of periods) {
  test(`take and overtake by ${period}`, limits, async (t) => {
    const { take, query } = connect(t, await serve(t));
    same(await take({ bucket: 'jar', [period]: 10 }), true, { [period]: 9 });
    // All at once and with small limits, so that no unit comes back in between, even with `ls`.
    const replies = await Promise.all([1, 1, 4, 1].map((count) => take({ bucket: 'box', count, [period]: 2 })));
    same(replies[0], true, { [period]: 1 });
    same(replies[1], true, { [period]: 0 });
    same(replies[2], false, { [period]: -4 });
    same(replies[3], false, { [period]: -1 });
    assert.equal((await query({ bucket: 'nobody' }))[period], 0);
  });
}

test('a take of some periods debits them all', limits, async (t) => {
  const { take, query } = connect(t, await serve(t));
  same(await take({ bucket: 'jar', lh: 10, lo: 10 }), true, { lh: 9, lo: 9 });
  same(await take({ bucket: 'jar', lh: 10 }), true, { lh: 8 });
  same(await take({ bucket: 'jar', lo: 10 }), true, { lo: 7 });
  same(await query({ bucket: 'jar' }), undefined, { lh: 7, lo: 7 });
  same(await take({ bucket: 'jar', count: 9, lh: 10, lo: 100 }), false, { lh: -2, lo: -2 });
  same(await query({ bucket: 'jar' }), undefined, { lh: 7, lo: 7 });
});

test('a query reports every period and changes nothing', limits, async (t) => {
  const { take, query } = connect(t, await serve(t));
  same(await query({ bucket: 'jar' }), undefined, {});
  same(await take({ bucket: 'jar', count: 3, lh: 10, ld: 20, lw: 30, lo: 40 }), true, { lh: 7, ld: 17, lw: 27, lo: 37 });
  for (let i = 0; i < 3; i += 1) {
    same(await query({ bucket: 'jar', count: 2, lo: 5 }), undefined, { lh: 7, ld: 17, lw: 27, lo: 37 });
  }
});

test('reset forgets the bucket, and a negative count gives back', limits, async (t) => {
  const { take, query } = connect(t, await serve(t));
  same(await take({ bucket: 'jar', count: 6, lh: 10, lo: 10 }), true, { lh: 4, lo: 4 });
  same(await take({ bucket: 'jar', count: -3, lo: 10 }), true, { lo: 7 });
  same(await take({ bucket: 'jar', count: 0, reset: true, lo: 10 }), true, { lo: 10 });
  same(await query({ bucket: 'jar' }), undefined, { lo: 10 });
});

test('time brings units back, up to the limit', limits, async (t) => {
  const { take, query } = connect(t, await serve(t));
  same(await take({ bucket: 'jar', count: 100, ls: 100 }), true, { ls: 0 });
  const start = Date.now();
  await sleep(300);
  const { ls } = await query({ bucket: 'jar' });
  const most = (Date.now() - start + 50) / 10;
  assert.ok(ls >= 29 && ls <= most, `${ls} of 100 a second after 300 ms or more, at most ${most}`);
  await sleep(1200);
  same(await query({ bucket: 'jar' }), undefined, { ls: 100 });
  same(await take({ bucket: 'jar', count: 101, ls: 100 }), false, { ls: -1 });
});

test('names of every kind', limits, async (t) => {
  const { take } = connect(t, await serve(t));
  for (const bucket of ['', 'Zoë→🍪', '__proto__', 'constructor', 'hasOwnProperty', 'x'.repeat(70_000)]) {
    same(await take({ bucket, id: '', lo: 5 }), true, { lo: 4 });
    same(await take({ bucket, id: bucket, lo: 5 }), true, { lo: 3 });
    same(await take({ bucket, reset: true, lo: 5 }), true, { lo: 4 });
  }
});

test('a thousand requests over one connection', limits, async (t) => {
  const { take, query } = connect(t, await serve(t));
  const replies = await Promise.all(Array.from({ length: 1000 }, () => take({ bucket: 'jar', lo: 600, ld: 5000 })));
  replies.forEach((reply, i) => {
    const accept = i < 600;
    same(reply, accept, accept ? { lo: 599 - i, ld: 4999 - i } : { lo: -1, ld: 5000 - 601 });
  });
  same(await query({ bucket: 'jar' }), undefined, { lo: 0, ld: 4400 });
});

test('a thousand requests over fifty connections', limits, async (t) => {
  const server = await serve(t);
  const clients = Array.from({ length: 50 }, () => connect(t, server));
  const replies = await Promise.all(Array.from({ length: 1000 }, (_, i) => clients[i % 50].take({ bucket: 'jar', lo: 600, ld: 5000 })));
  const accepted = replies.filter((reply) => reply.accept);
  assert.equal(accepted.length, 600);
  // Each number is handed out once.
  assert.deepEqual(accepted.map((reply) => reply.lo).sort((a, b) => a - b), Array.from({ length: 600 }, (_, i) => i));
  same(await clients[0].query({ bucket: 'jar' }), undefined, { lo: 0, ld: 4400 });
});

test('a thousand buckets', limits, async (t) => {
  const { take } = connect(t, await serve(t));
  const replies = await Promise.all(Array.from({ length: 1000 }, (_, i) => take({ bucket: `jar ${i}`, lo: i + 1 })));
  replies.forEach((reply, i) => same(reply, true, { lo: i }));
});

test('at SIGTERM all is answered; after the restart each answer goes to its own request', limits, async (t) => {
  const first = await serve(t);
  const { client, take, query } = connect(t, first);
  same(await take({ bucket: 'jar', lo: 1000 }), true, { lo: 999 });

  // A request that is not answered would hand its callback the first answer after the restart. All of them arrive
  // before the signal: in one segment, at a server that does not run. Segments that wait for the congestion window
  // would be with the client still.
  const socket = client.ws._socket;
  first.child.kill('SIGSTOP');
  let replies;
  let ended;
  try {
    socket.cork();
    replies = Array.from({ length: 500 }, (_, i) => take({ bucket: `jar ${i}`, lo: i + 1 }));
    socket.uncork();
    assert.equal(socket.writableLength, 0, 'one call has given all to the system');
    ended = first.stop();
  } finally {
    first.child.kill('SIGCONT');
  }
  (await Promise.all(replies)).forEach((reply, i) => same(reply, true, { lo: i }));
  assert.deepEqual(await ended, { code: 0, signal: null });
  assert.equal(client.sent_reqs.length, 0, 'nothing is owed');

  const second = await serve(t, first.port);
  let reply;
  while (reply === undefined) {
    // Until it is connected again the client fails each call at once.
    reply = await take({ bucket: 'jar', lo: 700 }).catch(() => sleep(20));
  }
  same(reply, true, { lo: 699 });
  same(await take({ bucket: 'other', lh: 7 }), true, { lh: 6 });
  same(await query({ bucket: 'jar' }), undefined, { lo: 699 });
  assert.equal(second.port, first.port);
});

test('full buckets are forgotten, those of others stay', limits, async (t) => {
  const { take, query } = connect(t, await serve(t, 0, ['--cleanup-interval', '1']));
  same(await take({ bucket: 'full', count: 0, lo: 10 }), true, { lo: 10 });
  same(await take({ bucket: 'half', count: 5, lo: 10 }), true, { lo: 5 });
  while ((await query({ bucket: 'full' })).lo !== 0) await sleep(50);
  same(await query({ bucket: 'half' }), undefined, { lo: 5 });
});

test('what is not a request ends the connection, and only that one', limits, async (t) => {
  const server = await serve(t);
  const bad = connect(t, server);
  const good = connect(t, server);
  same(await good.take({ bucket: 'jar', lo: 10 }), true, { lo: 9 });
  same(await bad.take({ bucket: 'jar', lo: 10 }), true, { lo: 8 });
  const { ws } = bad.client;
  const closed = new Promise((resolve) => { ws.once('close', (code) => resolve(code)); });
  ws.send('a text');
  assert.equal(await within(closed, 'the close'), 1000);
  same(await good.take({ bucket: 'jar', lo: 10 }), true, { lo: 7 });
  let reply;
  while (reply === undefined) reply = await bad.take({ bucket: 'jar', lo: 10 }).catch(() => sleep(20));
  same(reply, true, { lo: 6 });
});
