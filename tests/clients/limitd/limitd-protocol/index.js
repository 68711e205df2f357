// limitd's protobuf messages, as limitd-client wants them: a request as the bytes of a frame without its length, a
// response from them. No more of protobuf than these messages use.
'use strict';

const METHODS = { TAKE: 0, WAIT: 1, PUT: 2, STATUS: 3, PING: 4, GET: 5 };
const BODIES = { 100: 'error', 101: 'take', 102: 'put', 103: 'status', 104: 'pong', 105: 'get' };

function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes = [];
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

function text(field, value) {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
}

function number(field, value) {
  return Buffer.concat([varint(field * 8), varint(value)]);
}

function encode(request) {
  const parts = [];
  const numeric = typeof request.id === 'number' ? request.id : request.id2;
  if (numeric !== undefined && numeric !== null) parts.push(number(20, numeric));
  else if (typeof request.id === 'string') parts.push(text(1, request.id));
  if (typeof request.type === 'string') parts.push(text(2, request.type));
  parts.push(text(3, typeof request.key === 'string' ? request.key : ''));
  const method = typeof request.method === 'string' ? METHODS[request.method] : request.method;
  parts.push(number(4, method || 0));
  if (Number.isInteger(request.count)) parts.push(number(5, request.count));
  if (request.all) parts.push(number(6, 1));
  if (request.skipResponse) parts.push(number(7, 1));
  return Buffer.concat(parts);
}

// Calls visit(field, value) for each field: a number, or the bytes of what has a length.
function fields(buffer, visit) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      if (byte === undefined) throw new Error('a message that is cut off');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(BigInt.asIntN(64, value));
    }
  };
  while (at < buffer.length) {
    const key = next();
    const value = next();
    if (key % 8 === 0) {
      visit(Math.floor(key / 8), value);
    } else if (key % 8 === 2 && at + value <= buffer.length) {
      visit(Math.floor(key / 8), buffer.subarray(at, at += value));
    } else {
      throw new Error(`a field of wire type ${key % 8}`);
    }
  }
}

function level(buffer, names) {
  const result = Object.fromEntries(names.filter(Boolean).map((name) => [name, 0]));
  fields(buffer, (field, value) => { if (names[field]) result[names[field]] = value; });
  return result;
}

function body(kind, buffer) {
  if (kind === 'error') {
    const { type } = level(buffer, [, 'type']);
    return { type: type === 1 ? 'UNKNOWN_BUCKET_TYPE' : 'EMPTY' };
  }
  if (kind === 'take') {
    const take = level(buffer, [, 'conformant', 'delayed', 'remaining', 'reset', 'limit']);
    return { ...take, conformant: Boolean(take.conformant), delayed: Boolean(take.delayed) };
  }
  if (kind === 'put' || kind === 'get') return level(buffer, [, 'remaining', 'reset', 'limit']);
  if (kind === 'pong') return { protocol_version: 0, ...level(buffer, [, 'protocol_version']) };
  const items = [];
  fields(buffer, (field, value) => {
    const item = level(value, [, 'instance', 'remaining', 'reset', 'limit']);
    items.push({ ...item, instance: String(item.instance || '') });
  });
  return { items };
}

function decode(buffer) {
  const response = { request_id: '' };
  fields(buffer, (field, value) => {
    if (field === 1) response.request_id = value.toString('utf8');
    if (field === 20) response.request_id = value;
    const kind = BODIES[field];
    if (!kind) return;
    response.body = kind;
    response[kind] = body(kind, value);
  });
  return response;
}

module.exports = { Request: { encode }, Response: { decode } };
