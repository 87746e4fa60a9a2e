/**
 * The decision: what to do after what was seen.
 *
 * One state machine, without clock, randomness and network: they are arguments. Its cases for all
 * languages are in `clients/policy-cases.json`.
 */

import { pause as draw } from './backoff.js';
import { classify } from './classify.js';
import type { AnswerFacts, Observation } from './observation.js';
import type { Policy } from './policy.js';
import { mayBeRepeated } from './problem.js';

/** What to do next with an intent. Times are in seconds. */
export type Next =
  /** To send it again after a pause: the service may work on it. */
  | { readonly kind: 'resend'; readonly pause: number }
  /** To ask for the status of the operation after a pause. */
  | { readonly kind: 'ask'; readonly pause: number }
  | End;

/**
 * Nothing more now. `done`: the answer is the service's, and it stands. `refused`: the request was
 * refused or never arrived, and nothing of it happened here. `unknown`: it may have taken effect.
 */
export interface End {
  readonly kind: 'done' | 'refused' | 'unknown';
}

/**
 * What a resend takes from the budget. `transient`: the service, or the way to it, failed.
 * `throttled`: the service has too much to do.
 */
export type Cost = 'transient' | 'throttled';

/** What kind of request an intent is, and in what circumstances it is sent. */
export interface RequestFacts {
  /** Whether it has no effect whatever becomes of it (RFC 9110, section 9.2.1). */
  readonly safe: boolean;
  /** Whether it may be sent again: it has a key, or is idempotent by itself (section 9.2.2). */
  readonly repeatable: boolean;
  /** Whether it may be sent again without a key, too (section 9.2.2). */
  readonly idempotent: boolean;
  /** Whether somebody above already sends again what fails: then this is sent once. */
  readonly retriedAbove: boolean;
  /** Whether an earlier attempt may have taken effect, as after a restart. */
  readonly inDoubt: boolean;
  /** How old the key is already, in seconds. */
  readonly keyAge: number;
}

/** What an observation asks for, before it is known whether that may be. */
type Wish =
  /**
   * To send again. `counts` as an attempt where the service may work on it; `floor` is how long it
   * asked not to be asked.
   */
  | { kind: 'resend'; cost: Cost | undefined; counts: boolean; floor: number }
  /** To send again, or to ask, until what is under way has ended. */
  | { kind: 'wait'; floor: number }
  /** To fetch what is there. */
  | { kind: 'fetch' }
  | { kind: 'stop' };

const STOP: Wish = { kind: 'stop' };
const DONE: End = { kind: 'done' };
const REFUSED: End = { kind: 'refused' };
const UNKNOWN: End = { kind: 'unknown' };

// The service could not work on it, or did not get to answering.
const PASSING = [408, 425, 429, 502, 503, 504];

/** The course of an intent: what was seen so far, as far as it matters for what is next. */
export class Course {
  readonly #request: RequestFacts;
  /** Attempts that the service may have worked on. */
  #attempts = 0;
  /** Failures without an answer in between, those that never left included. */
  #failures = 0;
  /** Whether the service works, or has worked, on what is not counted yet. */
  #uncounted = false;
  /** Times that it waited for an operation that was under way. */
  #waits = 0;
  #lastPause = 0;
  #inDoubt: boolean;
  /** When the service forgets the key, from the beginning of the course on. */
  #keyEnd: number | undefined;
  #statusKnown: boolean;

  /**
   * A course before its first attempt. `statusKnown` is whether its status can be asked for
   * already.
   */
  constructor(policy: Policy, request: RequestFacts, statusKnown = false) {
    this.#request = request;
    this.#inDoubt = request.inDoubt;
    this.#statusKnown = statusKnown;
    if (policy.keyLifetime !== undefined) {
      this.#keyEnd = Math.max(policy.keyLifetime - request.keyAge, 0);
    }
  }

  /** Whether the key may be sent now, `elapsed` since the beginning, or ends too soon. */
  mayBegin(policy: Policy, elapsed: number): boolean {
    return this.#keyLives(policy, elapsed);
  }

  /** Whether something may have taken effect that no answer has told of. */
  get inDoubt(): boolean {
    return this.#inDoubt;
  }

  /**
   * What to do after an observation, `elapsed` since the beginning. `random` is even in `0.0..1.0`.
   * `budget` is asked for a resend when nothing else stands against it.
   */
  next(
    policy: Policy,
    seen: Observation,
    elapsed: number,
    random: number,
    budget: (cost: Cost) => boolean,
  ): Next {
    let wish = this.#takeIn(policy, seen, elapsed);
    const last = this.#verdict(seen);
    const { retriedAbove, repeatable } = this.#request;
    if (retriedAbove || wish.kind === 'stop') return last;
    if (wish.kind !== 'resend' && !repeatable) return last;
    if (wish.kind === 'fetch' && this.#attempts > policy.attempts) {
      // One fetch is free; where what is there cannot be had, more of them are a load like any.
      wish = { kind: 'resend', cost: 'transient', counts: false, floor: 0 };
    }
    const step = this.#step(policy, wish, random);
    if (step === undefined) return this.#orAsk(policy, last, elapsed, random);
    const then = elapsed + step.pause;
    if (then >= policy.deadline) return last;
    if (step.kind === 'resend') {
      if (!this.#keyLives(policy, then)) return this.#orAsk(policy, last, elapsed, random);
      if (wish.kind === 'resend' && wish.cost !== undefined && !budget(wish.cost)) {
        return this.#orAsk(policy, last, elapsed, random);
      }
    }
    this.#lastPause = step.pause;
    return step;
  }

  /**
   * The step that a wish comes to; none where the attempts are used up or it may not be repeated.
   */
  #step(
    policy: Policy,
    wish: Exclude<Wish, { kind: 'stop' }>,
    random: number,
  ): Exclude<Next, End> | undefined {
    switch (wish.kind) {
      case 'fetch':
        return { kind: 'resend', pause: 0 };
      case 'wait': {
        const pause = this.#waiting(policy, wish.floor, random);
        return { kind: this.#statusKnown ? 'ask' : 'resend', pause };
      }
      case 'resend': {
        const spent = this.#attempts >= policy.attempts;
        if (wish.counts && (spent || !this.#request.repeatable)) return undefined;
        return { kind: 'resend', pause: this.#pausing(policy, wish.cost, wish.floor, random) };
      }
    }
  }

  /** What an observation wishes; what it says is remembered. */
  #takeIn(policy: Policy, seen: Observation, elapsed: number): Wish {
    switch (seen.kind) {
      case 'never-sent':
        this.#failures += 1;
        return seen.lasting ? STOP : { kind: 'resend', cost: undefined, counts: false, floor: 0 };
      case 'lost':
        this.#count();
        this.#inDoubt = true;
        this.#failures += 1;
        return { kind: 'resend', cost: 'transient', counts: true, floor: 0 };
      case 'answered':
        this.#statusKnown ||= seen.namesStatus;
        if (seen.expiresIn !== undefined) {
          this.#keyEnd = Math.min(this.#keyEnd ?? Infinity, elapsed + seen.expiresIn);
        }
        return this.#takeInAnswer(policy, seen);
      case 'status': {
        const floor = longest(policy, seen.retryAfter);
        if (seen.state === 'ended') return { kind: 'fetch' };
        if (seen.state === 'not-applied') {
          this.#inDoubt = false;
          if (this.#uncounted) this.#count();
          return { kind: 'resend', cost: undefined, counts: true, floor };
        }
        if (seen.state === 'not-told') {
          this.#statusKnown = false;
          // What is under way is asked for with its key; here the service may have to work.
          if (!this.#uncounted) return { kind: 'resend', cost: 'transient', counts: true, floor };
        }
        return { kind: 'wait', floor };
      }
    }
  }

  #takeInAnswer(policy: Policy, answer: AnswerFacts): Wish {
    const { problem, said, status, kept } = answer;
    const floor = longest(policy, answer.retryAfter);
    if (isUnderWay(policy, answer)) {
      this.#inDoubt = true;
      this.#uncounted = true;
      return { kind: 'wait', floor };
    }
    this.#count();
    if (said === 'not-applied') this.#inDoubt = false;
    let unknown: boolean;
    let again: boolean;
    if (problem === undefined) {
      unknown = !kept && classify(answer, true) === 'uncertain';
      again = !kept && said !== 'applied' && PASSING.includes(status);
    } else {
      unknown =
        problem === 'outcome-unknown' ||
        problem === 'upstream-failed' ||
        (problem === 'handler-failed' && said !== 'not-applied');
      // No key protects the former.
      again =
        problem === 'upstream-failed' ? this.#request.idempotent : mayBeRepeated(problem);
    }
    this.#inDoubt ||= unknown;
    if (!again) return STOP;
    this.#failures += 1;
    const throttled = status === 429 || (status === 503 && answer.retryAfter !== undefined);
    return { kind: 'resend', cost: throttled ? 'throttled' : 'transient', counts: true, floor };
  }

  #count(): void {
    this.#attempts += 1;
    this.#uncounted = false;
    this.#waits = 0;
  }

  /** What it comes to when nothing more is done. */
  #verdict(seen: Observation): End {
    const refused = this.#inDoubt ? UNKNOWN : REFUSED;
    switch (seen.kind) {
      case 'never-sent':
        return refused;
      case 'lost':
        return UNKNOWN;
      case 'status':
        return seen.state === 'not-applied' ? REFUSED : UNKNOWN;
      case 'answered':
        return this.#verdictOf(seen, refused);
    }
  }

  #verdictOf(answer: AnswerFacts, refused: End): End {
    switch (answer.problem) {
      case 'in-flight':
      case 'outcome-unknown':
        return UNKNOWN;
      // They tell of the operation itself, whatever was in doubt before.
      case 'key-expired':
      case 'outcome-not-kept':
        return REFUSED;
      // Another intent has the key. What was sent before this course began may have been that one:
      // its content or its fields may have been others.
      case 'key-reused':
        return this.#request.inDoubt ? refused : REFUSED;
      case undefined:
        break;
      default:
        return refused;
    }
    if (this.#request.safe || (answer.kept && answer.said !== 'unknown')) return DONE;
    return classify(answer, !this.#inDoubt) === 'uncertain' ? UNKNOWN : DONE;
  }

  /** Where the outcome is unknown and its status can be asked for, that is done. */
  #orAsk(policy: Policy, last: End, elapsed: number, random: number): Next {
    if (last.kind !== 'unknown' || !this.#statusKnown) return last;
    const pause = this.#waiting(policy, 0, random);
    if (elapsed + pause >= policy.deadline) return last;
    this.#lastPause = pause;
    return { kind: 'ask', pause };
  }

  #pausing(policy: Policy, cost: Cost | undefined, floor: number, random: number): number {
    const { backoff, throttledBase } = policy;
    const base = cost === 'throttled' ? Math.max(throttledBase, backoff.base) : backoff.base;
    const failures = Math.max(this.#failures, 1);
    return floor + draw({ ...backoff, base }, failures, this.#lastPause, random);
  }

  #waiting(policy: Policy, floor: number, random: number): number {
    this.#waits += 1;
    return floor + draw(policy.waiting, this.#waits, this.#lastPause, random);
  }

  #keyLives(policy: Policy, at: number): boolean {
    if (this.#keyEnd === undefined) return true;
    // What lives shorter than the margin may be sent for half of its life, counted from when it was
    // made: an old key has no shorter margin.
    const life = this.#request.keyAge + this.#keyEnd;
    return at + Math.min(policy.lifetimeMargin, life / 2) < this.#keyEnd;
  }
}

function isUnderWay(policy: Policy, { problem, said, status, kept }: AnswerFacts): boolean {
  switch (problem) {
    case 'in-flight':
      return true;
    // Where it may be sent again, the status says so to everybody.
    case 'outcome-unknown':
      return status !== 503;
    case undefined:
      if (said !== undefined) return said === 'unknown';
      return !kept && policy.inFlightStatuses.includes(status);
    default:
      return false;
  }
}

/** How long a service may make the client wait. */
function longest(policy: Policy, asked: number | undefined): number {
  return Math.min(asked ?? 0, policy.longestRetryAfter);
}
