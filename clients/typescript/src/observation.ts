/** What a client sees of an attempt: facts, before anything is decided. */

import type { Problem } from './problem.js';

/** `Hapax-Outcome`: what the service says of the effect. */
export type Said = 'applied' | 'not-applied' | 'unknown';

/**
 * What an operation's status says. `ended`: it has an outcome, which the same request with the same
 * key gets. `not-applied`: nothing happened; the same request executes. `goes-on`: it is under way,
 * or nobody knows yet. `not-told`: there was no status to be had.
 */
export type OperationState = 'ended' | 'not-applied' | 'goes-on' | 'not-told';

/** Not one byte of it reached the service: there was no connection. */
export interface NeverSent {
  readonly kind: 'never-sent';
  /** Whether trying again is in vain, as with a certificate that is not trusted. */
  readonly lasting: boolean;
}

/** It may have reached the service, and there is no complete answer. */
export interface Lost {
  readonly kind: 'lost';
}

/** The facts of a complete answer. Times are in seconds from now on. */
export interface AnswerFacts {
  readonly kind: 'answered';
  readonly status: number;
  /** The problem of hapax that it is. */
  readonly problem: Problem | undefined;
  /**
   * Whether it is kept for the key: a replay (`Idempotent-Replayed: true`), or a first answer that
   * says until when it is replayed (`Idempotency-Expires`).
   */
  readonly kept: boolean;
  readonly said: Said | undefined;
  readonly retryAfter: number | undefined;
  readonly expiresIn: number | undefined;
  /** Whether it names the operation's status (`Link` with `rel="status"`, RFC 8631). */
  readonly namesStatus: boolean;
}

/** What the status of the operation says. */
export interface StatusSeen {
  readonly kind: 'status';
  readonly state: OperationState;
  readonly retryAfter: number | undefined;
}

/** What came of sending a request, or of asking for its status. */
export type Observation = NeverSent | Lost | AnswerFacts | StatusSeen;
