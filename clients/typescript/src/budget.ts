/**
 * How many resends a destination is asked to bear, over all intents.
 *
 * Retries multiply an outage: with three attempts each, a service that fails everything gets three
 * times its load when it can bear it least. A budget lets resends through as long as they are the
 * exception.
 */

import type { Cost } from './course.js';

/** What a budget holds and asks, as AWS's SDKs have it (their retry behaviour of 2026). */
export interface TokenBucket {
  /** How many tokens it holds, and begins with. Default: 500. */
  readonly tokens: number;
  /** What a resend after a failure takes. Default: 14. */
  readonly transient: number;
  /** What a resend after an answer of too much to do takes. Default: 5. */
  readonly throttled: number;
  /**
   * What an intent gives back that needed no resend. One that did gives back what its last resend
   * took. Default: 1.
   */
  readonly success: number;
}

/** A bucket of tokens, to be shared by everything that sends to one destination. */
export class Budget {
  readonly #rule: TokenBucket;
  #left: number;

  constructor(rule: Partial<TokenBucket> = {}) {
    this.#rule = { tokens: 500, transient: 14, throttled: 5, success: 1, ...rule };
    this.#left = this.#rule.tokens;
  }

  /** How many tokens are left. */
  get left(): number {
    return this.#left;
  }

  /**
   * Takes a resend out of the budget, and tells what it took; `undefined` where there is none left.
   */
  take(cost: Cost): number | undefined {
    const tokens = this.#rule[cost];
    if (this.#left < tokens) return undefined;
    this.#left -= tokens;
    return tokens;
  }

  /** The service answered an intent and works. `last` is what its last resend took. */
  succeed(last: number | undefined): void {
    this.#left = Math.min(this.#left + (last ?? this.#rule.success), this.#rule.tokens);
  }
}

/** Budgets by destination: one for each, made when it is first asked for. */
export class Budgets {
  readonly #new: () => Budget;
  readonly #known = new Map<string, Budget>();

  constructor(make: () => Budget = () => new Budget()) {
    this.#new = make;
  }

  /** The budget of a destination, such as `https://api.example`. */
  of(destination: string): Budget {
    const known = this.#known.get(destination) ?? this.#new();
    this.#known.set(destination, known);
    return known;
  }
}
