/** What a client may do, and for how long: plain data. */

import type { Backoff } from './backoff.js';

/**
 * When an intent is sent again, and when not. Times are in seconds.
 *
 * Attempts count against `attempts` when the service may have worked on them. Those that never
 * left, and waiting for an operation that is under way, are bounded by the `deadline` alone.
 */
export interface Policy {
  /**
   * How often the service may be asked to work, the first attempt included. Default: 3 (AWS SDKs;
   * Google SRE, "Handling Overload").
   */
  readonly attempts: number;
  /** How long all of it may take, from the first attempt on. Default: 60. */
  readonly deadline: number;
  /**
   * The pause after a failure. Default: 0.05 doubling to 20, full jitter (AWS SDKs, 2026 retry
   * mode).
   */
  readonly backoff: Backoff;
  /**
   * The first window after an answer that says that there is too much to do (429, and 503 with
   * `Retry-After`). Default: 1.
   */
  readonly throttledBase: number;
  /**
   * The pause while an operation is under way or its outcome unknown. Default: 0.25 doubling to 5,
   * full jitter.
   */
  readonly waiting: Backoff;
  /**
   * The longest time that a `Retry-After` makes the client wait. What is longer counts as this:
   * coming early is harmless with a key. Default: 60.
   */
  readonly longestRetryAfter: number;
  /**
   * How long the service remembers a key, from its first attempt on, where that is known
   * beforehand. An answer's `Idempotency-Expires` counts where it is earlier. Default: none.
   */
  readonly keyLifetime: number | undefined;
  /**
   * How long before a key's end it is not sent any more: a request can be under way for a while.
   * Default: 60.
   */
  readonly lifetimeMargin: number;
  /**
   * How long an attempt may take to its complete answer; never longer than what is left of the
   * `deadline`. Default: 30.
   */
  readonly attemptTimeout: number;
  /**
   * Statuses that say that a request with this key is under way, of services that say it without a
   * problem of hapax. Default: none; `409` is right for Stripe.
   */
  readonly inFlightStatuses: readonly number[];
  /**
   * What problems of hapax begin with, where the service configured it. Default:
   * `urn:hapax:problem:`.
   */
  readonly problemBase: string;
}

/** What a policy says where it is not said. */
export interface PolicyOptions
  extends Partial<Omit<Policy, 'backoff' | 'waiting'>> {
  readonly backoff?: Partial<Backoff>;
  readonly waiting?: Partial<Backoff>;
}

/**
 * A policy with its defaults. Throws a `RangeError` where it would wait for ever, or never send.
 */
export function policy(options: PolicyOptions = {}): Policy {
  const made: Policy = {
    attempts: 3,
    deadline: 60,
    throttledBase: 1,
    longestRetryAfter: 60,
    keyLifetime: undefined,
    lifetimeMargin: 60,
    attemptTimeout: 30,
    inFlightStatuses: [],
    problemBase: 'urn:hapax:problem:',
    ...options,
    backoff: { base: 0.05, cap: 20, jitter: 'full', ...options.backoff },
    waiting: { base: 0.25, cap: 5, jitter: 'full', ...options.waiting },
  };
  if (!(made.attempts >= 1)) {
    throw new RangeError('attempts: at least the first one is made; write 1 to send once');
  }
  for (const name of ['deadline', 'attemptTimeout'] as const) {
    if (!(Number.isFinite(made[name]) && made[name] > 0)) {
      throw new RangeError(`${name}: give a time in seconds; there is no waiting for ever`);
    }
  }
  return Object.freeze(made);
}
