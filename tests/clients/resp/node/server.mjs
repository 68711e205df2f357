// Starts the real `sluice resp` for a test and stops it. It is ready when it has printed its port.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const binary = process.env.SLUICE_BINARY || fileURLToPath(new URL('../../../../build/release/sluice', import.meta.url));
const readyLine = /^sluice: resp listening on .*:(\d+)$/;
const limitMillis = 30_000;
// In seconds: numbers in replies from this one on are times. Tests use no shorter times, and no other numbers as large.
const timesFrom = 50;

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${limitMillis} ms`)), limitMillis);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class Server {
  // With port 0 the system chooses the port. `flags` are added to the command line.
  static async start(port = 0, flags = []) {
    if (!existsSync(binary)) throw new Error(`there is no ${binary}: run "make build" first`);
    const server = new Server(port, flags);
    try {
      server.port = await within(server.listening, 'starting sluice');
    } catch (error) {
      server.child.kill('SIGKILL');
      throw error;
    }
    return server;
  }

  constructor(port, flags) {
    // The tester's own environment must not change what is served.
    const env = { PATH: process.env.PATH };
    this.child = spawn(binary, ['resp', '--port', String(port), ...flags], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.child);
    this.said = '';
    this.child.stderr.on('data', (data) => { this.said += data; });
    this.ended = new Promise((resolve) => {
      this.child.once('error', (error) => resolve({ code: null, signal: error.message }));
      this.child.once('close', (code, signal) => resolve({ code, signal }));
    });
    this.ended.then(() => running.delete(this.child));
    this.listening = new Promise((resolve, reject) => {
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        const ready = readyLine.exec(line);
        if (ready) resolve(Number(ready[1]));
      });
      this.ended.then(({ code, signal }) => reject(new Error(`sluice ended at once (${code ?? signal}): ${this.said}`)));
    });
    this.listening.catch(() => {});
  }

  // Asks the server to end and waits for it; resolves to how it ended.
  async stop() {
    this.child.kill('SIGTERM');
    try {
      return await within(this.ended, 'ending sluice');
    } finally {
      this.child.kill('SIGKILL');
    }
  }
}

// A server that is stopped at the end of the test `t`, after its `clients` are closed; it must end cleanly.
export async function start(t, port = 0) {
  const server = await Server.start(port);
  server.clients = [];
  t.after(async () => {
    for (const close of server.clients) close();
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
  });
  return server;
}

// Whole numbers, exact except for times above 0, which may have become less meanwhile.
export function assertReply(reply, expected) {
  assert.ok(Array.isArray(reply) && reply.every(Number.isInteger), `not a list of integers: ${reply}`);
  const fits = reply.length === expected.length && expected.every((number, i) =>
    (number >= timesFrom ? reply[i] <= number && reply[i] > number - timesFrom : reply[i] === number));
  assert.ok(fits, `[${reply}] in place of [${expected}]`);
}
