// Starts the real sluice for a test and stops it. It is ready when it has printed its port.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../../../', import.meta.url));
const binary = process.env.SLUICE_BINARY || join(repository, 'build/release/sluice');
const readyLine = /^sluice: divvy listening on .*:(\d+)$/;
const limitMillis = 10_000;

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${limitMillis} ms`)), limitMillis);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class Server {
  // Serves the policy file at `path`; with port 0 the system chooses the port. `flags` are added to the command line.
  static async start(path, port = 0, flags = []) {
    if (!existsSync(binary)) throw new Error(`there is no ${binary}: run "make build" first`);
    const server = new Server(path, port, flags);
    try {
      server.port = await within(server.listening, 'starting sluice');
    } catch (error) {
      server.child.kill('SIGKILL');
      throw error;
    }
    return server;
  }

  constructor(path, port, flags) {
    // The tester's own environment must not change what is served.
    const env = { PATH: process.env.PATH, PORT: String(port) };
    this.child = spawn(binary, ['divvy', ...flags, path], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.child);
    let said = '';
    this.child.stderr.on('data', (data) => { said += data; });
    this.stdout = [];
    this.ended = new Promise((resolve) => {
      this.child.once('error', (error) => resolve({ code: null, signal: error.message }));
      this.child.once('close', (code, signal) => resolve({ code, signal }));
    });
    this.ended.then(() => running.delete(this.child));
    this.listening = new Promise((resolve, reject) => {
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        this.stdout.push(line);
        const ready = readyLine.exec(line);
        if (ready) resolve(Number(ready[1]));
      });
      this.ended.then(({ code, signal }) => reject(new Error(`sluice ended at once (${code ?? signal}): ${said}`)));
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

// A policy file with the given text, removed when the test `t` ends.
export async function policyFile(t, text, name = 'policy.ini') {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-divvy-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}
