/** The client: what sends intents by `fetch`. */

import { Budgets } from './budget.js';
import { Drive, type Settings } from './drive.js';
import type { Fetch } from './exchange.js';
import type { Intent } from './intent.js';
import type { Operation, Outcome } from './outcome.js';
import { policy, type PolicyOptions } from './policy.js';

/** What is said about a client. */
export interface ClientOptions {
  /** When an intent is sent again, and when not. */
  readonly policy?: PolicyOptions;
  /** Budgets, to share them with other clients. Default: its own. */
  readonly budgets?: Budgets;
  /** Answers are cut at so many bytes. Default: 16 MiB. */
  readonly longestContent?: number;
  /** What sends. It must not send anything again by itself. Default: the platform's `fetch`. */
  readonly fetch?: Fetch;
}

/** In what circumstances an intent is sent. */
export interface SendOptions {
  /**
   * Whether somebody above sends again what fails, as for a request that came in with
   * `Hapax-Retries: above`. Then it is sent once.
   */
  readonly retriedAbove?: boolean;
}

const LONGEST_CONTENT = 16 * 1024 * 1024;

/** A client that sends intents until their outcomes are known, or it is known that they are not. */
export class Client {
  readonly #settings: Settings;

  constructor(options: ClientOptions = {}) {
    this.#settings = {
      fetch: options.fetch ?? ((url, init) => fetch(url, init)),
      policy: policy(options.policy),
      budgets: options.budgets ?? new Budgets(),
      longestContent: options.longestContent ?? LONGEST_CONTENT,
    };
  }

  /** Sends an intent until its outcome is known, as far as the policy goes. */
  send(intent: Intent, { retriedAbove = false }: SendOptions = {}): Promise<Outcome> {
    return new Drive(this.#settings, intent, retriedAbove).run();
  }

  /**
   * Finds out what became of an operation: asks for its status where that is known, and sends its
   * intent again, with its key.
   */
  findOut(operation: Operation, { retriedAbove = false }: SendOptions = {}): Promise<Outcome> {
    return new Drive(this.#settings, operation.intent, retriedAbove, operation).run();
  }
}
