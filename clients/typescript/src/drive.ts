/** The way of an intent to its outcome: attempts, pauses and questions, as the course decides. */

import { ABOVE, FIELD } from './above.js';
import { Answer } from './answer.js';
import type { Budget, Budgets } from './budget.js';
import { Course, type Next } from './course.js';
import { exchange, type Exchange, type Fetch } from './exchange.js';
import { facts, isReplayed } from './facts.js';
import type { Intent } from './intent.js';
import type { Observation } from './observation.js';
import type { Operation, Outcome, Refusal } from './outcome.js';
import type { Policy } from './policy.js';
import { address, question, read } from './status.js';

/** Everything about a client. */
export interface Settings {
  readonly fetch: Fetch;
  readonly policy: Policy;
  readonly budgets: Budgets;
  readonly longestContent: number;
}

/** What was seen of an attempt. */
interface Seen {
  readonly observation: Observation;
  readonly answer: Answer | undefined;
  readonly why: string;
}

/** An intent under way. */
export class Drive {
  readonly #settings: Settings;
  readonly #intent: Intent;
  readonly #course: Course;
  readonly #budget: Budget;
  readonly #began = performance.now();
  /** Whether whoever is below is told that it is sent again from here or above. */
  readonly #tellsBelow: boolean;
  readonly #repeatable: boolean;
  #status: string | undefined;
  #lastTaken: number | undefined;
  /** The last answer that did not stand. */
  #evidence: Answer | undefined;
  #sent = 0;

  /** An intent before its first attempt, or one whose outcome was not known. */
  constructor(settings: Settings, intent: Intent, retriedAbove: boolean, operation?: Operation) {
    const { policy, budgets } = settings;
    this.#settings = settings;
    this.#intent = intent;
    this.#budget = budgets.of(intent.destination);
    this.#status = operation?.status;
    const inDoubt = operation !== undefined;
    const request = intent.requestFacts({ retriedAbove, inDoubt, now: Date.now() / 1000 });
    this.#course = new Course(policy, request, this.#status !== undefined);
    this.#repeatable = request.repeatable;
    this.#tellsBelow = retriedAbove || (request.repeatable && policy.attempts > 1);
  }

  /** Goes on until there is no more to do. */
  async run(): Promise<Outcome> {
    let asks = this.#status !== undefined;
    if (!asks && !this.#repeatable && this.#course.inDoubt) {
      // It may have been sent, and no key makes the two one.
      const why = 'it has no key, so it is not sent again';
      return { kind: 'unknown', operation: this.#operation(undefined, why) };
    }
    for (;;) {
      if (!asks && !this.#course.mayBegin(this.#settings.policy, this.#elapsed())) {
        return this.#tooLate();
      }
      const seen = asks ? await this.#ask() : await this.#send();
      const next = this.#decide(seen);
      switch (next.kind) {
        case 'done':
          return this.#done(seen);
        case 'refused':
          return this.#refused(seen);
        case 'unknown':
          return this.#unknown(seen);
      }
      this.#evidence = seen.answer ?? this.#evidence;
      if (next.pause > 0) await sleep(next.pause);
      asks = next.kind === 'ask';
    }
  }

  async #send(): Promise<Seen> {
    this.#sent += 1;
    const { method, url } = this.#intent;
    const headers = this.#intent.headers();
    if (this.#tellsBelow && mayAnnounce(url)) headers.set(FIELD, ABOVE);
    const content = this.#intent.body();
    // Of these methods `fetch` takes none.
    const body = ['GET', 'HEAD'].includes(method) ? undefined : content;
    const seen = await this.#exchange({ method, url, headers, body });
    if (seen.answer !== undefined) {
      this.#status = address(url, seen.answer.headers) ?? this.#status;
    }
    return seen;
  }

  async #ask(): Promise<Seen> {
    if (this.#status === undefined) {
      const observation = { kind: 'status', state: 'not-told', retryAfter: undefined } as const;
      return { observation, answer: undefined, why: 'its status is nowhere to be asked for' };
    }
    const headers = question(this.#intent);
    const asked = { method: 'GET', url: this.#status, headers, body: undefined };
    const { observation, answer, why } = await this.#exchange(asked);
    const told = read(observation, answer);
    return { observation: told, answer: undefined, why: `its status is ${told.state}: ${why}` };
  }

  async #exchange(request: Omit<Exchange, 'timeout' | 'longestContent'>): Promise<Seen> {
    const { fetch, policy, longestContent } = this.#settings;
    const left = Math.max(policy.deadline - this.#elapsed(), 0.001);
    const timeout = Math.min(policy.attemptTimeout, left);
    const came = await exchange(fetch, { ...request, timeout, longestContent });
    if (!(came instanceof Answer)) {
      return { observation: came.seen, answer: undefined, why: came.why };
    }
    const observation = facts(policy, came, Date.now() / 1000);
    const { status, problem } = observation;
    const why = problem === undefined ? `${status}` : `${status}: ${problem}`;
    return { observation, answer: came, why };
  }

  #decide({ observation }: Seen): Next {
    const { policy } = this.#settings;
    const next = this.#course.next(policy, observation, this.#elapsed(), Math.random(), (cost) => {
      const taken = this.#budget.take(cost);
      this.#lastTaken = taken ?? this.#lastTaken;
      return taken !== undefined;
    });
    // The service works where it answers with something else than that it does not.
    if (next.kind === 'done' && observation.kind === 'answered') {
      const { kept, status } = observation;
      if (kept || (status < 500 && status !== 429)) this.#budget.succeed(this.#lastTaken);
    }
    return next;
  }

  #elapsed(): number {
    return (performance.now() - this.#began) / 1000;
  }

  #done(seen: Seen): Outcome {
    const { answer: response } = seen;
    // An answer stands only where there is one.
    if (response === undefined) return this.#unknown(seen);
    return { kind: 'done', response, replayed: isReplayed(response.headers), sent: this.#sent };
  }

  #refused({ observation, answer: response, why: detail }: Seen): Outcome {
    let why: Refusal = 'not-applied';
    if (observation.kind === 'never-sent') why = 'never-sent';
    if (observation.kind === 'answered') why = observation.problem ?? why;
    return { kind: 'refused', why, response, detail, sent: this.#sent };
  }

  #unknown({ answer, why }: Seen): Outcome {
    return { kind: 'unknown', operation: this.#operation(answer ?? this.#evidence, why) };
  }

  #operation(evidence: Answer | undefined, why: string): Operation {
    return { intent: this.#intent, status: this.#status, evidence, why, sent: this.#sent };
  }

  /** The key is about to end, and is not sent any more. */
  #tooLate(): Outcome {
    const response = this.#evidence;
    if (!this.#course.inDoubt) {
      const detail = 'its key is about to be forgotten by the service';
      return { kind: 'refused', why: 'key-ends', response, detail, sent: this.#sent };
    }
    const why = 'the service is about to forget its key, so it is not sent again';
    return { kind: 'unknown', operation: this.#operation(response, why) };
  }
}

/**
 * Whether a request may carry a field more. From a page to another origin, a field that the service
 * does not list in `Access-Control-Allow-Headers` makes the browser refuse the request.
 */
function mayAnnounce(url: string): boolean {
  return globalThis.location === undefined || globalThis.location.origin === new URL(url).origin;
}

function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, seconds * 1000);
  });
}
