/** What a service's own answer amounts to, as the gateway reads it too. */

import type { AnswerFacts } from './observation.js';

/**
 * What an answer proves. `outcome`: it took effect, or failed for good. `not-applied`: nothing
 * happened. `uncertain`: the effect may exist.
 */
export type Classified = 'outcome' | 'not-applied' | 'uncertain';

const NOT_APPLIED = [
  307, 308, 400, 401, 405, 411, 413, 414, 415, 417, 421, 422, 425, 426, 428, 429, 431,
];
const TERMINAL = [402, 403, 404, 409, 410, 412, 451];

/**
 * Classifies a complete answer. `clean` is whether nothing was in doubt before: a refusal proves
 * nothing about earlier attempts, so unless it is clean, only success or the service's own word
 * settles it.
 */
export function classify({ said, status }: AnswerFacts, clean: boolean): Classified {
  if (said === 'applied') return 'outcome';
  if (said === 'not-applied') return 'not-applied';
  if (said === 'unknown') return 'uncertain';
  if ((status >= 200 && status < 300) || [301, 302, 303].includes(status)) return 'outcome';
  if (!clean) return 'uncertain';
  if (NOT_APPLIED.includes(status)) return 'not-applied';
  return TERMINAL.includes(status) ? 'outcome' : 'uncertain';
}
