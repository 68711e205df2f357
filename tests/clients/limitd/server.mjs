// Starts the real `sluice limitd` for a test and stops it. It is ready when it has printed its port.
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../../../', import.meta.url));
const binary = process.env.SLUICE_BINARY || join(repository, 'build/release/sluice');
const readyLine = /^sluice: limitd listening on .*:(\d+)$/;
const limitMillis = 10_000;

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export class Server {
  // Serves a configuration on a port, 0 for a free one, until the test `t` ends.
  static async start(t, text, port = 0) {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-limitd-'));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const path = join(folder, 'limitd.yaml');
    await writeFile(path, text);
    return Server.startFile(t, path, port);
  }

  static async startFile(t, path, port = 0) {
    const server = new Server(path, port);
    t.after(() => server.stop());
    server.port = await server.listening;
    return server;
  }

  constructor(path, port) {
    const arguments_ = ['limitd', '--config-file', path, '--port', String(port), '--hostname', '127.0.0.1'];
    this.child = spawn(binary, arguments_, { env: { PATH: process.env.PATH }, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.child);
    let said = '';
    this.child.stderr.on('data', (data) => { said += data; });
    this.ended = new Promise((resolve) => {
      this.child.once('error', (error) => resolve(error.message));
      this.child.once('close', (code, signal) => resolve(code ?? signal));
    });
    this.ended.then(() => running.delete(this.child));
    this.listening = new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`sluice does not listen: ${said}`)), limitMillis);
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        const ready = readyLine.exec(line);
        if (!ready) return;
        clearTimeout(late);
        resolve(Number(ready[1]));
      });
      this.ended.then((status) => {
        clearTimeout(late);
        reject(new Error(`sluice ended at once (${status}): ${said}`));
      });
    });
    this.listening.catch(() => {});
  }

  get uri() { return `limitd://127.0.0.1:${this.port}`; }

  // Asks the server to end and waits for it; resolves to its status.
  async stop() {
    this.child.kill('SIGTERM');
    const late = setTimeout(() => this.child.kill('SIGKILL'), limitMillis);
    const status = await this.ended;
    clearTimeout(late);
    return status;
  }
}
