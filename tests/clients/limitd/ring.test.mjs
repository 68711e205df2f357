// The shards of the real client, compared with the recording that sluice's own client is tested against
// (src/protocol/limitd/ring_test.cc). With SLUICE_RECORD set it is recorded again.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';

import { repository } from './server.mjs';

const require = createRequire(import.meta.url);
const ShardClient = require('limitd-client/shard_client');

const recording = join(repository, 'tests/conformance/limitd_ring.json');
const lists = [
  ['10.0.0.1:9231', '10.0.0.2:9231', '10.0.0.3:9231'],
  ['limits-1.example:9231', 'limits-2.example:9232', 'limits-3.example:19231', 'limits-4.example:9231',
    'limits-5.example:9240', 'limits-6.example:9231', 'limits-7.example:9231'],
  ['127.0.0.1:40001', '127.0.0.1:40002', '127.0.0.1:40003', '127.0.0.1:40004', '127.0.0.1:40005',
    '127.0.0.1:40006', '127.0.0.1:40007', '127.0.0.1:40008', '127.0.0.1:40009', '127.0.0.1:40010',
    '127.0.0.1:40011', '127.0.0.1:40012'],
];
const types = ['ip', 'wrong_password', 'once per hour'];
const keys = Array.from({ length: 1000 }, (_, i) =>
  [types[i % 3], i % 2 === 0 ? `10.${i % 7}.${i % 251}.${i}` : `user-${i * 7919}|grüße`]);

test('the shards of 1,000 keys over 3 lists of hosts', () => {
  // No connection is made.
  ShardClient.prototype.createClient = (uri) => ({ uri });
  const found = lists.map((hosts) => {
    const client = new ShardClient({ shard: { hosts: hosts.map((host) => `limitd://${host}`) } });
    const shards = keys.map(([type, key]) =>
      hosts.indexOf(client.getDestinationClient(type, key).uri.replace('limitd://', '')));
    assert.ok(shards.every((shard) => shard >= 0));
    return { hosts, shards: shards.map((shard) => shard.toString(16)).join('') };
  });
  const text = `${JSON.stringify({ keys, lists: found })}\n`;
  if (process.env.SLUICE_RECORD) writeFileSync(recording, text);
  assert.equal(readFileSync(recording, 'utf8'), text);
});
