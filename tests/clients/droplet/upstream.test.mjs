// droplet's own tests, unchanged, against the real server, except those of the server object in their own process.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('.', import.meta.url));
const inProcess = ['fails to start without port', 'starts with port', 'purge buckets with maxed out limits'];
const command = ['node_modules/mocha/bin/mocha.js', '--require', './upstream.cjs', '--reporter', 'json', '--exit',
  '--timeout', '20000', '--grep', inProcess.join('|'), '--invert', 'node_modules/droplet/test/tests.js'];

const { error, stdout, stderr } = await new Promise((resolve) => {
  const env = { ...process.env, NODE_OPTIONS: '--no-deprecation' };
  execFile(process.execPath, command, { cwd: folder, env, timeout: 120_000 }, (failed, out, err) => {
    resolve({ error: failed, stdout: out, stderr: err });
  });
});

test('droplet’s own tests ran', () => {
  assert.ok(stdout.includes('"stats"'), `${error}\n${stderr}`);
  const { stats } = JSON.parse(stdout);
  assert.equal(stats.tests, 28);
  assert.equal(stats.pending, 0);
});

for (const ran of stdout.includes('"stats"') ? JSON.parse(stdout).tests : []) {
  test(`upstream: ${ran.fullTitle}`, () => assert.deepEqual(ran.err, {}));
}
