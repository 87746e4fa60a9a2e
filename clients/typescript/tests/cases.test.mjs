// The cases that the clients of all languages share: `clients/policy-cases.json`.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { Answer, Course, facts, policy } from '@hapax/client';

const FILE = process.env.HAPAX_POLICY_CASES ?? new URL('../../policy-cases.json', import.meta.url);
const { wall, cases } = JSON.parse(readFileSync(FILE, 'utf8'));
const STEP = ['at', 'random', 'seen', 'budget', 'next', 'pause', 'cost'];

test('k7 every case is decided as in the other languages', async (context) => {
  assert.ok(cases.length > 100, 'they are all there');
  for (const one of cases) await context.test(one.name, () => run(one));
});

function run(one) {
  const rule = policy(inCamelCase(one.policy ?? {}));
  const request = {
    safe: false,
    repeatable: true,
    idempotent: false,
    retriedAbove: false,
    inDoubt: false,
    keyAge: 0,
  };
  const course = new Course(rule, { ...request, ...inCamelCase(one.request ?? {}) });
  one.steps.forEach((step, nth) => {
    const where = `step ${nth + 1}`;
    const isPermitted = step.budget ?? true;
    let asked;
    const next = course.next(rule, seenIn(rule, step.seen), step.at, step.random, (cost) => {
      asked = cost;
      return isPermitted;
    });
    assert.equal(next.kind, step.next, where);
    const pause = next.pause ?? 0;
    assert.ok(Math.abs(pause - (step.pause ?? 0)) < 1e-6, `${where}: a pause of ${pause}`);
    assert.equal(isPermitted ? asked : undefined, step.cost, where);
    assert.deepEqual(Object.keys(step).filter((name) => !STEP.includes(name)), [], where);
  });
}

function seenIn(rule, seen) {
  switch (seen) {
    case 'never-sent':
      return { kind: 'never-sent', lasting: false };
    case 'never-sent-lasting':
      return { kind: 'never-sent', lasting: true };
    case 'lost':
      return { kind: 'lost' };
  }
  if (seen.operation !== undefined) {
    return { kind: 'status', state: seen.operation, retryAfter: seen.retry_after };
  }
  const headers = new Headers(seen.headers);
  let body = seen.json;
  if (seen.problem !== undefined) {
    headers.set('Content-Type', 'application/problem+json');
    body = { type: rule.problemBase + seen.problem, title: '', status: seen.status };
  }
  const content = new TextEncoder().encode(body === undefined ? '' : JSON.stringify(body));
  return facts(rule, new Answer(seen.status, headers, content), Date.parse(wall) / 1000);
}

function inCamelCase(fields) {
  const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [camel(name), value]));
}
