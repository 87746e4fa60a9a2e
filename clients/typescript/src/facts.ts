/** Reading an answer's facts from its fields and content. */

import type { Answer } from './answer.js';
import type { AnswerFacts, Said } from './observation.js';
import type { Policy } from './policy.js';
import { problemOf, type Problem } from './problem.js';
import { retryAfter, until } from './times.js';

// No problem of hapax is longer.
const LONGEST_PROBLEM = 64 * 1024;

const SAID: readonly string[] = ['applied', 'not-applied', 'unknown'] satisfies Said[];

/** The facts of an answer at `now`, on the clock of the wall (seconds since 1970). */
export function facts(policy: Policy, answer: Answer, now: number): AnswerFacts {
  const { headers, status } = answer;
  const expires = headers.get('idempotency-expires');
  const expiresIn = expires === null ? undefined : until(expires, now);
  const wait = headers.get('retry-after');
  const said = headers.get('hapax-outcome')?.trim() ?? '';
  return {
    kind: 'answered',
    status,
    problem: problem(policy, answer),
    kept: isReplayed(headers) || expiresIn !== undefined,
    // Anything but the three words is as if it were not there.
    said: SAID.includes(said) ? (said as Said) : undefined,
    retryAfter: wait === null ? undefined : retryAfter(wait, now),
    expiresIn,
    namesStatus: statusLink(headers) !== undefined,
  };
}

/** Whether an answer is the first one, replayed. */
export function isReplayed(headers: Headers): boolean {
  return headers.get('idempotent-replayed')?.trim().toLowerCase() === 'true';
}

/**
 * The address of an operation's status: the first `Link` with `rel="status"`, as it stands there
 * (RFC 8288, section 3; RFC 8631, section 4.4).
 */
export function statusLink(headers: Headers): string | undefined {
  // What is between `<` and `>`, and the parameters up to the next.
  for (const link of (headers.get('link') ?? '').split('<').slice(1)) {
    const end = link.indexOf('>');
    if (end >= 0 && isStatus(link.slice(end + 1))) return link.slice(0, end);
  }
  return undefined;
}

/** A text in a JSON object, if the content is one. */
export function member(answer: Answer, name: string): string | undefined {
  let document: unknown;
  try {
    document = answer.json();
  } catch {
    return undefined;
  }
  if (typeof document !== 'object' || document === null || !Object.hasOwn(document, name)) {
    return undefined;
  }
  const value = (document as Record<string, unknown>)[name];
  return typeof value === 'string' ? value : undefined;
}

function isStatus(parameters: string): boolean {
  return parameters.split(';').some((parameter) => {
    const [name = '', ...rest] = parameter.split('=');
    const value = rest.join('=').trim().replace(/[,\s]+$/, '').replace(/^"+|"+$/g, '');
    const relations = value.toLowerCase().split(/\s+/);
    return name.trim().toLowerCase() === 'rel' && relations.includes('status');
  });
}

function problem(policy: Policy, answer: Answer): Problem | undefined {
  const mediaType = answer.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (mediaType !== 'application/problem+json' || answer.body.length > LONGEST_PROBLEM) {
    return undefined;
  }
  const type = member(answer, 'type');
  if (type === undefined || !type.startsWith(policy.problemBase)) return undefined;
  return problemOf(type.slice(policy.problemBase.length));
}
