// What the client promises by itself, before a service that does as it is told.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import test from 'node:test';

import { Budget, Budgets, Client, Intent, IntentError, effectId, operationOf } from '@hapax/client';

const URL_ = 'https://api.example/payments';
const QUICK = { backoff: { base: 0.001 }, waiting: { base: 0.001 }, throttledBase: 0.001 };
const STATUS = '</.well-known/idempotency/operations/abc?of=x>; rel="status"';

const lost = () => Promise.reject(new TypeError('fetch failed'));
const answer = (status, headers = {}, body = '{}') => new Response(body, { status, headers });
const problem = (status, name, headers = {}) =>
  answer(
    status,
    { 'Content-Type': 'application/problem+json', ...headers },
    JSON.stringify({ type: `urn:hapax:problem:${name}` }),
  );
const failed = (cause) => () => Promise.reject(new TypeError('fetch failed', { cause }));
const coded = (code) => Object.assign(new Error(code), { code });

/** A client whose answers are written down, and what it asked. */
function scripted(answers, options = {}) {
  const asked = [];
  const fetch = async (url, init) => {
    asked.push({ url, ...init });
    const next = answers.shift();
    return typeof next === 'function' ? next() : next;
  };
  return { asked, client: new Client({ fetch, policy: QUICK, ...options }) };
}

test('b1 the key is made before the first attempt and kept in each', async () => {
  const { client, asked } = scripted([lost, lost, answer(201)]);
  const intent = Intent.post(URL_, { json: { amount: 1200 } });
  const outcome = await client.send(intent);
  assert.deepEqual([outcome.kind, outcome.sent], ['done', 3]);
  const sent = asked.map(({ url, method, headers, body }) =>
    JSON.stringify([url, method, [...headers], new TextDecoder().decode(body)]),
  );
  assert.equal(new Set(sent).size, 1, 'each attempt is the same');
  assert.equal(asked[0].headers.get('Idempotency-Key'), `"${intent.key}"`);
  assert.equal(asked[0].redirect, 'manual');
  assert.notEqual(Intent.post(URL_).key, intent.key, 'another intent, another key');
});

test('keys are UUIDs of version 7', () => {
  const before = Date.now();
  const { key } = Intent.post(URL_);
  assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const at = parseInt(key.replaceAll('-', '').slice(0, 12), 16);
  assert.ok(before <= at && at <= Date.now());
});

test('nothing of an intent can be changed', () => {
  const content = new TextEncoder().encode('once');
  const headers = new Headers({ 'X-Account': '7' });
  const intent = Intent.post(URL_, { body: content, headers });
  content.fill(0);
  headers.set('X-Account', '8');
  intent.body().fill(0);
  intent.headers().set('Idempotency-Key', 'other');
  assert.equal(new TextDecoder().decode(intent.body()), 'once');
  assert.equal(intent.headers().get('X-Account'), '7');
  assert.equal(intent.headers().get('Idempotency-Key'), `"${intent.key}"`);
  for (const name of ['key', 'url', 'anything']) {
    assert.throws(() => {
      intent[name] = 'other';
    }, TypeError);
  }
});

test('safe and idempotent methods get no key, and unsafe ones may go without', () => {
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'delete']) {
    assert.equal(new Intent(method, URL_).key, undefined, method);
  }
  for (const method of ['POST', 'PATCH', 'LINK']) {
    assert.notEqual(new Intent(method, URL_).key, undefined, method);
    assert.equal(new Intent(method, URL_, { withoutKey: true }).key, undefined, method);
  }
});

test('a key is written as it is asked for', () => {
  for (const [keyStyle, field] of [['quoted', '"a\\"b\\\\c"'], ['bare', 'a"b\\c']]) {
    const intent = Intent.post(URL_, { key: 'a"b\\c', keyStyle });
    assert.equal(intent.headers().get('Idempotency-Key'), field);
  }
});

test('what cannot be sent is no intent', () => {
  const circle = {};
  circle.itself = circle;
  for (const [url, options] of [
    ['/payments', {}],
    ['ftp://api.example/', {}],
    ['https://kim:secret@api.example/', {}],
    [URL_, { key: '' }],
    [URL_, { key: 'x'.repeat(256) }],
    [URL_, { key: 'schlüssel' }],
    [URL_, { key: 'a', withoutKey: true }],
    [URL_, { headers: { 'Idempotency-Key': 'x' } }],
    [URL_, { headers: { 'content-length': '1' } }],
    [URL_, { headers: { X: 'a\r\nY: b' } }],
    [URL_, { json: circle }],
    [URL_, { json: () => 1 }],
    [URL_, { json: 1, body: '1' }],
  ]) {
    assert.throws(() => Intent.post(url, options), IntentError, `${url} ${Object.keys(options)}`);
  }
});

test('k7 without a key an unsafe request is sent once', async () => {
  const { client, asked } = scripted([lost]);
  const outcome = await client.send(Intent.post(URL_, { withoutKey: true }));
  assert.deepEqual([outcome.kind, asked.length], ['unknown', 1]);
});

test('never sent is claimed only where it is sure', async () => {
  const refused = coded('ECONNREFUSED');
  for (const [cause, isSure] of [
    [refused, true],
    [coded('ENOTFOUND'), true],
    [coded('EAI_AGAIN'), true],
    [coded('UND_ERR_CONNECT_TIMEOUT'), true],
    [new AggregateError([refused, refused]), true],
    [new AggregateError([refused, coded('ETIMEDOUT')]), false],
    [new AggregateError([]), false],
    [coded('ECONNRESET'), false],
    [coded('UND_ERR_SOCKET'), false],
    [new Error('other'), false],
    [undefined, false],
  ]) {
    const { client } = scripted([failed(cause), answer(201)]);
    const outcome = await client.send(Intent.post(URL_, { withoutKey: true }));
    assert.equal(outcome.kind, isSure ? 'done' : 'unknown', String(cause?.code ?? cause));
  }
  const { client } = scripted([failed(coded('CERT_HAS_EXPIRED'))]);
  const outcome = await client.send(Intent.post(URL_));
  assert.deepEqual([outcome.kind, outcome.why], ['refused', 'never-sent']);
});

test('an unknown outcome keeps its intent and is found out by its status', async () => {
  const intent = Intent.post(URL_, { headers: { Authorization: 'x' }, body: '1' });
  const unknown = problem(409, 'outcome-unknown', { 'Retry-After': '60', Link: STATUS });
  const first = await scripted([unknown]).client.send(intent);
  assert.equal(first.kind, 'unknown');
  assert.equal(first.operation.intent, intent);
  assert.equal(first.operation.evidence.status, 409);
  assert.equal(effectId(first.operation), 'abc');
  const { client, asked } = scripted([
    answer(200, {}, '{"state": "unknown"}'),
    answer(200, {}, '{"state": "succeeded"}'),
    answer(201, { 'Idempotent-Replayed': 'true' }),
  ]);
  const outcome = await client.findOut(first.operation);
  assert.deepEqual([outcome.kind, outcome.replayed, outcome.sent], ['done', true, 1]);
  const where = 'https://api.example/.well-known/idempotency/operations/abc?of=x';
  assert.deepEqual(
    asked.map(({ method, url }) => [method, url]),
    [['GET', where], ['GET', where], ['POST', URL_]],
  );
  assert.equal(asked[0].headers.get('Authorization'), 'x');
  assert.equal(asked[2].headers.get('Idempotency-Key'), `"${intent.key}"`);
});

test('the status is asked for where the request went and nowhere else', async () => {
  for (const [link, found] of [
    ['</s/1?of=2>; rel="status"', 'https://api.example/s/1?of=2'],
    ['<https://api.example/s>; rel=status', 'https://api.example/s'],
    ['</d>; rel="describedby", </s>; REL="Status"', 'https://api.example/s'],
    ['<http://api.example/s>; rel=status', undefined],
    ['<https://evil.example/s>; rel=status', undefined],
    ['<//evil.example/s>; rel=status', undefined],
    ['<s>; rel=status', undefined],
    ['</s>; rel=statusx', undefined],
    ['<>;;=,<', undefined],
  ]) {
    const told = problem(409, 'outcome-unknown', { 'Retry-After': '60', Link: link });
    const outcome = await scripted([told]).client.send(Intent.post(URL_));
    assert.equal(outcome.operation.status, found, link);
  }
});

test('a refusal after a restart settles nothing', async () => {
  const intent = Intent.post(URL_, { key: 'written-down-before' });
  const outcome = await scripted([answer(401)]).client.findOut(operationOf(intent));
  assert.equal(outcome.kind, 'unknown');
});

test('what has no key is not found out about by sending it', async () => {
  const { client, asked } = scripted([answer(201)]);
  const intent = Intent.post(URL_, { withoutKey: true });
  assert.equal((await client.findOut(operationOf(intent))).kind, 'unknown');
  assert.deepEqual(asked, []);
});

test('a changed intent is refused', async () => {
  const outcome = await scripted([problem(422, 'key-reused')]).client.send(Intent.post(URL_));
  assert.deepEqual([outcome.kind, outcome.why], ['refused', 'key-reused']);
});

test('who retries says so below, and who does not says nothing', async () => {
  for (const [attempts, retriedAbove, said] of [
    [3, false, 'above'],
    [1, false, null],
    [1, true, 'above'],
    [3, true, 'above'],
  ]) {
    const { client, asked } = scripted([lost, answer(201)], { policy: { ...QUICK, attempts } });
    await client.send(Intent.post(URL_), { retriedAbove });
    assert.equal(asked[0].headers.get('Hapax-Retries'), said);
    assert.equal(asked.length, attempts > 1 && !retriedAbove ? 2 : 1, 'one layer retries');
  }
});

test('an outage uses up the budget of its destination alone', async () => {
  const budgets = new Budgets(() => new Budget({ tokens: 28 }));
  const { client, asked } = scripted(Array(20).fill(lost), { budgets });
  for (let nth = 0; nth < 10; nth += 1) await client.send(Intent.post(URL_));
  assert.equal(asked.length, 12, 'ten, and two more');
  assert.equal(budgets.of('https://api.example').left, 0);
  assert.equal(budgets.of('https://other.example').left, 28);
});

test('success gives back what was taken or one, and never more than all', () => {
  const budget = new Budget({ tokens: 20 });
  budget.succeed(undefined);
  assert.equal(budget.left, 20);
  assert.deepEqual([budget.take('throttled'), budget.take('transient')], [5, 14]);
  assert.equal(budget.take('throttled'), undefined);
  budget.succeed(undefined);
  assert.equal(budget.left, 2);
  budget.succeed(14);
  assert.equal(budget.left, 16);
});

/**
 * A service that sends each connection what is written down, byte by byte where it has a rhythm.
 */
async function service(answers, { rhythm = 0 } = {}) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => send(socket, answers.shift(), rhythm));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

function send(socket, text, rhythm) {
  if (rhythm === 0) return socket.end(text);
  const timer = setInterval(() => {
    if (text === '' || socket.destroyed) {
      clearInterval(timer);
      socket.end();
    } else {
      socket.write(text[0]);
      text = text.slice(1);
    }
  }, rhythm);
}

const ONCE = { policy: { attempts: 1 } };

test('half an answer is none', async () => {
  const whole = 'HTTP/1.1 201 Created\r\nContent-Length: 2\r\nHapax-Outcome: unknown\r\n\r\n{}';
  const head = whole.indexOf('\r\n\r\n') + 4;
  const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n';
  const cuts = [0, 7, 20, 22, 30, 41, 50, head - 2, head, head + 1].map((at) => whole.slice(0, at));
  cuts.push(chunked.slice(0, -8), chunked.slice(0, -5));
  const { url, close } = await service([...cuts, whole.replace('unknown', 'applied')]);
  const client = new Client(ONCE);
  for (const cut of cuts) {
    const outcome = await client.send(Intent.post(url));
    assert.equal(outcome.kind, 'unknown', cut);
    assert.equal(outcome.operation.evidence, undefined, cut);
  }
  const outcome = await client.send(Intent.post(url));
  assert.equal(outcome.response?.text(), '{}');
  close();
});

test('an empty answer without a length is lost over http, where heads can be cut', async () => {
  for (const [url, kind] of [[URL_, 'done'], ['http://api.example/', 'unknown']]) {
    const { client } = scripted([new Response('', { status: 201 })], ONCE);
    assert.equal((await client.send(Intent.post(url))).kind, kind);
  }
  const { client } = scripted([new Response(null, { status: 204 })], ONCE);
  assert.equal((await client.send(Intent.post('http://api.example/'))).kind, 'done');
});

test('an answer that comes byte by byte is lost when the time is over', async () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n';
  const { url, close } = await service([head + 'x'.repeat(400)], { rhythm: 10 });
  const begun = performance.now();
  const client = new Client({ policy: { attempts: 1, attemptTimeout: 0.6 } });
  const outcome = await client.send(Intent.post(url));
  assert.equal(outcome.kind, 'unknown');
  assert.match(outcome.operation.why, /no complete answer within/);
  assert.ok(performance.now() - begun < 2000);
  close();
});

test('content is kept up to a length, and a redirect is an answer', async () => {
  const { url, close } = await service([
    'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd',
    'HTTP/1.1 303 See Other\r\nLocation: /\r\nContent-Length: 0\r\n\r\n',
  ]);
  const client = new Client({ longestContent: 3 });
  const { response } = await client.send(Intent.post(url));
  assert.deepEqual([response.text(), response.cut], ['abc', true]);
  assert.equal((await client.send(Intent.post(url))).response.status, 303);
  close();
});

test('a policy that would wait for ever is none', () => {
  for (const policy of [{ deadline: Infinity }, { attemptTimeout: 0 }, { attempts: 0 }]) {
    assert.throws(() => new Client({ policy }), RangeError);
  }
});
