// examples/express, unchanged, against the real sluice: what its clients see.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import { limitMillis, Program, serve, until, within } from './server.mjs';

const limits = { timeout: limitMillis };
const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const example = path('../../../../examples/express');
const config = join(example, 'sluice.yaml');

// The example in a folder that has our packages; `seconds`: how long it waits for sluice.
async function start(t, onFailure = 'open', seconds = limitMillis / 1000) {
  const sluice = await serve(t, config);
  return { sluice, service: await startInFrontOf(t, sluice.port, onFailure, seconds) };
}

async function startInFrontOf(t, port, onFailure, seconds = limitMillis / 1000) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-express-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(example, folder, { recursive: true, filter: (name) => !name.endsWith('node_modules') });
  symlinkSync(path('node_modules'), join(folder, 'node_modules'));
  const url = `http://127.0.0.1:${port}`;
  const env = { PORT: '0', SLUICE_URL: url, ON_FAILURE: onFailure, SLUICE_SECONDS: String(seconds) };
  const listening = /^listening on http:\/\/127\.0\.0\.1:(\d+)$/;
  const service = new Program(process.execPath, ['app.mjs'], listening, { cwd: folder, env });
  t.after(() => service.stop());
  service.port = await within(service.listening, 'starting the example');
  return service;
}

// A server that answers every POST with that status and a problem, and every GET with 200; resolves to its port.
async function answering(t, status) {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(request.method === 'POST' ? status : 200, { Location: '/elsewhere' });
    response.end('{"detail": "the reason for it"}');
  });
  t.after(() => { server.closeAllConnections(); server.close(); });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return server.address().port;
}

async function ask(service, target = '/export?x=1') {
  const answer = await fetch(`http://127.0.0.1:${service.port}${target}`, { signal: AbortSignal.timeout(limitMillis) });
  return { status: answer.status, field: (name) => answer.headers.get(name), body: await answer.text() };
}

test('its packages are those of this test', () => {
  const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
  assert.deepEqual(read(join(example, 'package.json')).dependencies, read(path('package.json')).devDependencies);
});

test('up to the limit', limits, async (t) => {
  const { service } = await start(t);
  const policy = '"export";q=5;w=600';
  for (let left = 4; left >= 0; --left) {
    const answer = await ask(service);
    assert.deepEqual([answer.status, answer.body, answer.field('RateLimit-Policy')], [200, 'all there is\n', policy]);
    assert.match(answer.field('RateLimit'), new RegExp(`^"export";r=${left};t=\\d+$`));
    assert.equal(answer.field('Retry-After'), null);
  }
  for (let i = 0; i < 2; ++i) {
    const answer = await ask(service);
    assert.deepEqual([answer.status, answer.field('RateLimit-Policy')], [429, policy]);
    assert.match(answer.field('Content-Type'), /^application\/problem\+json/);
    assert.match(answer.field('RateLimit'), /^"export";r=0;t=\d+$/);
    const retryAfter = Number(answer.field('Retry-After'));
    assert.ok(retryAfter > 480 && retryAfter <= 600, String(retryAfter));
    assert.deepEqual(JSON.parse(answer.body)['violated-policies'], ['export']);
  }
  const other = await ask(service, '/');
  assert.deepEqual([other.status, other.body, other.field('RateLimit')], [200, 'hello\n', null]);
});

test('without sluice requests pass', limits, async (t) => {
  const { sluice, service } = await start(t);
  await sluice.stop();
  for (let i = 0; i < 7; ++i) {
    const answer = await ask(service);
    assert.deepEqual([answer.status, answer.body, answer.field('RateLimit')], [200, 'all there is\n', null]);
  }
  await until(() => service.said.includes('sluice cannot be reached (open)'), 'it is logged');
});

test('an answer that is not a decision lets nothing pass', limits, async (t) => {
  for (const [status, shown] of [[302, 500], [400, 500], [401, 500], [404, 500], [421, 500], [503, 503]]) {
    const service = await startInFrontOf(t, await answering(t, status), 'open');
    const answer = await ask(service);
    assert.deepEqual([answer.status, answer.body], [shown, 'the limits cannot be checked\n'], String(status));
    await until(() => service.said.includes(`sluice does not decide: ${status} {"detail": "the reason`), 'it is logged');
    await service.stop();
  }
});

test('without sluice requests are refused where that is needed', limits, async (t) => {
  const { sluice, service } = await start(t, 'closed');
  assert.equal((await ask(service)).status, 200);
  await sluice.stop();
  const answer = await ask(service);
  assert.deepEqual([answer.status, answer.field('Retry-After')], [503, '1']);
  await serve(t, config, sluice.port);
  await until(async () => (await ask(service)).status === 200, 'it asks sluice again');
});

test('odd paths are decided', limits, async (t) => {
  const { service } = await start(t, 'closed');  // a client must not be able to avoid a decision
  for (const target of ['/%ff%00%ed%a0%80', `/${'x'.repeat(5000)}`, '/%22%5c', '//export', `/?${'y'.repeat(5000)}`]) {
    assert.ok([200, 400, 404].includes((await ask(service, target)).status), target);
  }
});

// The answer to a target as it is, which `fetch` would write in another way.
async function askAsWritten(service, target) {
  const socket = connect(service.port, '127.0.0.1');
  socket.write(Buffer.from(`GET ${target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`, 'latin1'));
  let text = '';
  for await (const data of socket.setEncoding('latin1')) text += data;
  return { status: Number(text.split(' ')[1]), text };
}

test('all spellings of a path that the router takes for one share its limit', limits, async (t) => {
  const { service } = await start(t, 'closed');
  for (let i = 0; i < 5; ++i) assert.equal((await ask(service)).status, 200);
  const limited = [];
  for (const spelling of readFileSync(path('../spellings.txt'), 'latin1').trimEnd().split('\n')) {
    const answer = await within(askAsWritten(service, spelling), spelling);
    assert.ok(!answer.text.includes('all there is'), `${spelling} passes the limit`);
    if (answer.status === 429) limited.push(spelling);
  }
  // Those that Express serves.
  for (const spelling of ['/EXPORT', '/export/', '/EXPORT/', 'HTTP://h/EXPORT', '/export??', 'http:///export']) {
    assert.ok(limited.includes(spelling), `${spelling} in ${limited}`);
  }
});

test('a silent sluice is not waited for', limits, async (t) => {
  for (const [onFailure, status] of [['open', 200], ['closed', 503]]) {
    const { sluice, service } = await start(t, onFailure, 0.25);
    await sluice.hold();
    assert.equal((await ask(service)).status, status);
  }
});
