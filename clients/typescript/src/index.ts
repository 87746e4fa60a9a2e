/**
 * A client that retries safely: one key for one intent, kept until the outcome is known.
 *
 * An {@link Intent} owns its key before the first attempt and cannot be changed. A {@link Client}
 * sends it until its outcome is known, as far as its policy and a budget go, and tells one of three
 * things: `done`, `refused` or `unknown`.
 */

export { ABOVE, FIELD, says } from './above.js';
export { Answer } from './answer.js';
export type { Backoff, Jitter } from './backoff.js';
export { Budget, Budgets, type TokenBucket } from './budget.js';
export { Client, type ClientOptions, type SendOptions } from './client.js';
export { Course, type Cost, type End, type Next, type RequestFacts } from './course.js';
export type { Fetch } from './exchange.js';
export { facts } from './facts.js';
export { Intent, IntentError, type IntentOptions, type KeyStyle } from './intent.js';
export type {
  AnswerFacts,
  Lost,
  NeverSent,
  Observation,
  OperationState,
  Said,
  StatusSeen,
} from './observation.js';
export {
  effectId,
  operationOf,
  type Done,
  type Operation,
  type Outcome,
  type Refusal,
  type Refused,
  type Unknown,
} from './outcome.js';
export { policy, type Policy, type PolicyOptions } from './policy.js';
export type { Problem } from './problem.js';
