// Node's own clients over TLS: https by HTTP/1.1, http2 by HTTP/2, and one that offers both.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connect2 } from 'node:http2';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { connect as connectTls } from 'node:tls';

import { limitMillis, serve, within } from './server.mjs';

const limits = { timeout: limitMillis };
const take = JSON.stringify({ entries: { queue: 'a' } });

// Certificates in a folder of their own: an authority, the server's, and a client's with app.example.
const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const file = (name) => join(folder, name);
const text = (name) => readFileSync(file(name));
const openssl = (...words) => execFileSync('openssl', words, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
const fresh = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
function authority(name) {
  openssl(...fresh, '-keyout', `${name}.key`, '-out', `${name}.crt`, '-subj', `/CN=${name}`,
    '-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign');
}
function sign(by, name, names) {
  openssl(...fresh, '-CA', `${by}.crt`, '-CAkey', `${by}.key`, '-keyout', `${name}.key`, '-out', `${name}.crt`,
    '-subj', '/CN=tester', '-addext', 'basicConstraints=critical,CA:FALSE', '-addext', `subjectAltName=${names}`);
}
authority('one');
authority('other');
sign('one', 'server', 'DNS:localhost');
sign('one', 'elsewhere', 'DNS:elsewhere.example');
sign('other', 'stranger', 'DNS:localhost');
sign('one', 'app', 'DNS:app.example');

function listening(t, pair = 'server', more = '') {
  const config = file(`${pair}.yaml`);
  writeFileSync(config, `listen:
  - protocol: http
    address: "127.0.0.1:8390"
    tls: { certificate: ${file(pair)}.crt, key: ${file(pair)}.key${more} }
rules:
  - { name: known, match: { tls.name: app.example }, actor: tls.name, limit: { quota: 9, window: 1d, algorithm: fixed_window } }
  - { name: rest, match: { queue: "*" }, actor: queue, limit: { quota: 9, window: 1d, algorithm: fixed_window } }
`);
  return serve(t, config);
}

const requested = `, client_ca: ${file('one')}.crt, client: request`;
const trusted = (shown) => ({ ca: text('one.crt'), ...(shown && { cert: text(`${shown}.crt`), key: text(`${shown}.key`) }) });

// A take by HTTP/1.1: the status, the version and the answer.
function ask1(port, options = {}) {
  return within(new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json' };
    const asked = request({ host: 'localhost', port, path: '/v1/take', method: 'POST', headers, ...trusted(), ...options });
    asked.on('response', (answer) => {
      let body = '';
      answer.on('data', (data) => { body += data; });
      answer.on('end', () => resolve({ status: answer.statusCode, version: answer.httpVersion, ...JSON.parse(body) }));
    });
    asked.on('error', reject);
    asked.end(take);
  }), 'an answer');
}

// `times` takes at once by one connection of HTTP/2: their answers.
async function ask2(port, times, options = {}) {
  const session = connect2(`https://localhost:${port}`, { ...trusted(), ...options });
  const failed = new Promise((_, reject) => { session.once('error', reject); });
  const ask = () => new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':path': '/v1/take', 'content-type': 'application/json' });
    let status = 0;
    let body = '';
    stream.setEncoding('utf8');
    stream.on('response', (fields) => { status = fields[':status']; });
    stream.on('data', (data) => { body += data; });
    stream.on('end', () => resolve({ status, ...JSON.parse(body) }));
    stream.on('error', reject);
    stream.end(take);
  });
  try {
    return await within(Promise.race([failed, Promise.all(Array.from({ length: times }, ask))]), 'answers');
  } finally {
    session.destroy();
  }
}

test('https by HTTP/1.1, one connection kept open', limits, async (t) => {
  const { port } = await listening(t);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  for (const left of [8, 7, 6]) {
    const answer = await ask1(port, { agent });
    assert.deepEqual([answer.status, answer.version, answer.rule, answer.remaining], [200, '1.1', 'rest', left]);
  }
});

test('http2, many streams at once', limits, async (t) => {
  const { port } = await listening(t);
  const answers = await ask2(port, 50);
  assert.deepEqual(answers.map((answer) => answer.status).sort(), [...Array(9).fill(200), ...Array(41).fill(429)]);
});

test('the server chooses by ALPN', limits, async (t) => {
  const { port } = await listening(t);
  const both = ['h2', 'http/1.1'];
  for (const [offered, chosen] of [[both, 'h2'], [[...both].reverse(), 'h2'], [['http/1.1'], 'http/1.1'], [undefined, false]]) {
    const socket = connectTls({ host: 'localhost', port, servername: 'localhost', ALPNProtocols: offered, ...trusted() });
    t.after(() => socket.destroy());
    await within(new Promise((resolve, reject) => {
      socket.once('secureConnect', resolve);
      socket.once('error', reject);
    }), 'a handshake');
    assert.equal(socket.alpnProtocol, chosen, offered);
  }
});

test('a certificate is met by its rule, by both versions', limits, async (t) => {
  const { port } = await listening(t, 'server', requested);
  assert.deepEqual((({ rule, remaining }) => [rule, remaining])(await ask1(port, trusted('app'))), ['known', 8]);
  assert.deepEqual((await ask2(port, 1, trusted('app'))).map(({ rule, remaining }) => [rule, remaining]), [['known', 7]]);
  assert.equal((await ask1(port)).rule, 'rest');
  assert.equal((await ask2(port, 1))[0].rule, 'rest');
});

test('servers that are not trusted', limits, async (t) => {
  for (const [pair, code] of [['stranger', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'], ['elsewhere', 'ERR_TLS_CERT_ALTNAME_INVALID']]) {
    const { port } = await listening(t, pair);
    await assert.rejects(ask1(port), { code });
    await assert.rejects(ask2(port, 1), { code });
  }
});

test('clients without the certificate that is required', limits, async (t) => {
  const { port } = await listening(t, 'server', `, client_ca: ${file('one')}.crt`);
  for (const options of [{}, trusted('stranger')]) {
    await assert.rejects(ask1(port, options), /alert|ECONNRESET|socket hang up|EPIPE/);
    await assert.rejects(ask2(port, 1, options), /alert|ECONNRESET|socket hang up|EPIPE|closed/);
  }
  assert.equal((await ask1(port, trusted('app'))).rule, 'known');
});
