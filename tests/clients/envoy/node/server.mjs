// Starts the real `sluice envoy` for a test and stops it. It is ready when it has printed its ports.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const binary = process.env.SLUICE_BINARY || fileURLToPath(new URL('../../../../build/release/sluice', import.meta.url));
const limits = fileURLToPath(new URL('../limits.yaml', import.meta.url));
const readyLine = /^sluice: envoy listening on 127\.0\.0\.1:(\d+)$/;
export const limitMillis = 120_000;

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${limitMillis} ms`)), limitMillis);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

class Server {
  constructor() {
    if (!existsSync(binary)) throw new Error(`there is no ${binary}: run "make build" first`);
    this.folder = mkdtempSync(join(tmpdir(), 'sluice-envoy-'));
    copyFileSync(limits, join(this.folder, 'limits.yaml'));
    // The tester's own environment must not change what is served.
    const env = { PATH: process.env.PATH, GRPC_HOST: '127.0.0.1', GRPC_PORT: '0', HOST: '127.0.0.1', PORT: '0' };
    this.child = spawn(binary, ['envoy', this.folder], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.child);
    this.said = '';
    this.child.stderr.on('data', (data) => { this.said += data; });
    this.ended = new Promise((resolve) => {
      this.child.once('error', (error) => resolve({ code: null, signal: error.message }));
      this.child.once('close', (code, signal) => resolve({ code, signal }));
    });
    this.ended.then(() => {
      running.delete(this.child);
      rmSync(this.folder, { recursive: true, force: true });
    });
    this.listening = new Promise((resolve, reject) => {
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        const ready = readyLine.exec(line);
        if (ready) resolve(Number(ready[1])); // gRPC's, which it names first
      });
      this.ended.then(({ code, signal }) => reject(new Error(`sluice ended at once (${code ?? signal}): ${this.said}`)));
    });
    this.listening.catch(() => {});
  }

  // Runs `work` while the process is stopped (SIGSTOP), so that requests wait in its sockets.
  async held(work) {
    this.child.kill('SIGSTOP');
    try {
      const state = () => readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ').at(-1)[0];
      const end = Date.now() + limitMillis;
      while (state() !== 'T') {
        assert.ok(Date.now() < end, 'the server does not stand still');
        await pause(5);
      }
      return await work();
    } finally {
      this.child.kill('SIGCONT');
    }
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
export async function start(t) {
  const server = new Server();
  server.clients = [];
  t.after(async () => {
    for (const close of server.clients) close();
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
  });
  server.port = await within(server.listening, 'starting sluice');
  return server;
}
