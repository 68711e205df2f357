// Starts the real sluice by a sluice.yaml, or a service that asks it, for a test and stops it. It is ready when it has
// printed its port.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const binary = process.env.SLUICE_BINARY || fileURLToPath(new URL('../../../../build/release/sluice', import.meta.url));
export const limitMillis = 60_000;

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${limitMillis} ms`)), limitMillis);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export async function until(holds, what) {
  const end = Date.now() + limitMillis;
  while (!await holds()) {
    assert.ok(Date.now() < end, what);
    await pause(10);
  }
}

// A program; `listening` finds the port in the line that has it. Of the tester's own environment it gets PATH alone.
export class Program {
  constructor(command, words, listening, options = {}) {
    const env = { PATH: process.env.PATH, ...options.env };
    this.child = spawn(command, words, { cwd: options.cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.child);
    this.said = '';
    this.ended = new Promise((resolve) => {
      this.child.once('error', (error) => resolve({ code: null, signal: error.message }));
      this.child.once('close', (code, signal) => resolve({ code, signal }));
    });
    this.ended.then(() => running.delete(this.child));
    this.listening = new Promise((resolve, reject) => {
      for (const stream of [this.child.stdout, this.child.stderr]) {
        createInterface({ input: stream }).on('line', (line) => {
          this.said += `${line}\n`;
          const found = listening.exec(line);
          if (found) resolve(Number(found[1]));
        });
      }
      this.ended.then(({ code, signal }) => reject(new Error(`${command} ended at once (${code ?? signal}): ${this.said}`)));
    });
    this.listening.catch(() => {});
  }

  // Stops the process (SIGSTOP) until `stop`, so that requests wait in its sockets.
  async hold() {
    this.child.kill('SIGSTOP');
    const state = () => readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ').at(-1)[0];
    await until(() => state() === 'T', 'it does not stand still');
  }

  // Asks it to end and waits for it; resolves to how it ended.
  async stop() {
    this.child.kill('SIGCONT');
    this.child.kill('SIGTERM');
    try {
      return await within(this.ended, 'an end');
    } finally {
      this.child.kill('SIGKILL');
    }
  }
}

// sluice by a sluice.yaml whose 127.0.0.1:8390 becomes `port`, until the end of the test `t`; it must end cleanly.
export async function serve(t, config, port = 0) {
  if (!existsSync(binary)) throw new Error(`there is no ${binary}: run "make build" first`);
  const folder = mkdtempSync(join(tmpdir(), 'sluice-http-'));
  const path = join(folder, 'sluice.yaml');
  writeFileSync(path, readFileSync(config, 'utf8').replace('127.0.0.1:8390', `127.0.0.1:${port}`));
  const server = new Program(binary, ['serve', '--config', path, '--admin', 'off'], /^sluice: http listening on .*:(\d+)$/);
  t.after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.said);
    rmSync(folder, { recursive: true, force: true });
  });
  server.port = await within(server.listening, 'starting sluice');
  return server;
}
