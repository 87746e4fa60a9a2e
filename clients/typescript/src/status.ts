/** Asking for the status of an operation. */

import type { Answer } from './answer.js';
import { member, statusLink } from './facts.js';
import type { Intent } from './intent.js';
import type { Observation, OperationState, StatusSeen } from './observation.js';

/**
 * Where an answer says that the status is. The question carries the caller's credentials, so it
 * goes to nobody else than the request did.
 */
export function address(of: string, headers: Headers): string | undefined {
  const link = statusLink(headers);
  if (link === undefined) return undefined;
  const { origin } = new URL(of);
  const isPath = link.startsWith('/') && !link.startsWith('//');
  let named: URL;
  try {
    named = new URL(isPath ? origin + link : link);
  } catch {
    return undefined;
  }
  return named.origin === origin ? origin + named.pathname + named.search : undefined;
}

/** The fields of the question: those of the intent, which say whose it is and what its key is. */
export function question(intent: Intent): Headers {
  const headers = intent.headers();
  headers.delete('Content-Type');
  headers.delete('Content-Encoding');
  headers.set('Accept', 'application/json');
  return headers;
}

/** What the answer says. It is no evidence of the operation's own answer. */
export function read(seen: Observation, answer: Answer | undefined): StatusSeen {
  if (seen.kind !== 'answered') return status('goes-on', undefined);
  if (seen.status === 200 && answer !== undefined) return status(state(answer), seen.retryAfter);
  // Not there, or not for this caller.
  const isTold = seen.status >= 500 || seen.status === 429;
  return status(isTold ? 'goes-on' : 'not-told', seen.retryAfter);
}

function status(of: OperationState, retryAfter: number | undefined): StatusSeen {
  return { kind: 'status', state: of, retryAfter };
}

function state(answer: Answer): OperationState {
  switch (member(answer, 'state')) {
    case 'succeeded':
    case 'failed':
      return 'ended';
    case 'not-applied':
      return 'not-applied';
    case 'executing':
    case 'unknown':
      return 'goes-on';
    default:
      return 'not-told';
  }
}
