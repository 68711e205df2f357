// Starts the real `sluice droplet` for a test and stops it. It is ready when it has printed its port.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const binary = process.env.SLUICE_BINARY || fileURLToPath(new URL('../../../build/release/sluice', import.meta.url));
const readyLine = /^sluice: droplet listening on .*:(\d+)$/;
const limitMillis = 10_000;

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
    const env = { PATH: process.env.PATH, PORT: String(port) };
    this.child = spawn(binary, ['droplet', ...flags], { env, stdio: ['ignore', 'pipe', 'pipe'] });
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
