/**
 * How long to wait between two attempts.
 *
 * The formulas are those of the AWS Architecture Blog's "Exponential Backoff And Jitter": without
 * jitter, callers that failed together come back together.
 */

/**
 * How a pause is drawn from its window `t = min(cap, base * 2^n)`.
 *
 * `full`: evenly from `0` to `t`, the least load. `equal`: `t/2` and evenly up to as much again,
 * never at once. `decorrelated`: evenly from `base` to three times the last pause, at most `cap`.
 */
export type Jitter = 'full' | 'equal' | 'decorrelated';

/** A growing pause with jitter, in seconds. */
export interface Backoff {
  /** The first window. */
  readonly base: number;
  /** No window is longer. It is applied before the jitter. */
  readonly cap: number;
  /** How the pause is drawn from its window. */
  readonly jitter: Jitter;
}

// A longer pause is not a pause.
const LONGEST = 366 * 24 * 60 * 60;

/**
 * The pause before the resend that follows `failures` failures (at least 1), `last` being the pause
 * before. `random` is even in `0.0..1.0`.
 */
export function pause(rule: Backoff, failures: number, last: number, random: number): number {
  const share = Number.isFinite(random) ? Math.min(Math.max(random, 0), 1) : 0;
  const window = windowOf(rule, failures);
  switch (rule.jitter) {
    case 'full':
      return window * share;
    case 'equal':
      return window / 2 + (window / 2) * share;
    case 'decorrelated': {
      const cap = Math.min(rule.cap, LONGEST);
      const base = Math.min(rule.base, cap);
      const most = Math.min(Math.max(last, base), cap) * 3;
      return Math.min(base + (most - base) * share, cap);
    }
  }
}

/** `min(cap, base * 2^(failures - 1))`. */
function windowOf(rule: Backoff, failures: number): number {
  const doublings = Math.min(Math.max(failures - 1, 0), 32);
  return Math.min(rule.base * 2 ** doublings, rule.cap, LONGEST);
}
