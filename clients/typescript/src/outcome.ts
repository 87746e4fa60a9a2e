/** What became of an intent: one of three things, and it is always known which. */

import type { Answer } from './answer.js';
import type { Intent } from './intent.js';
import type { Problem } from './problem.js';

/** The service answered, and the answer stands. Its status may be any. */
export interface Done {
  readonly kind: 'done';
  readonly response: Answer;
  /** Whether it is the first answer, replayed: an earlier attempt had taken effect. */
  readonly replayed: boolean;
  /** How often it was sent. */
  readonly sent: number;
}

/**
 * Why an intent was refused: a problem of hapax, or another reason. `outcome-not-kept` and
 * `key-expired` say that an operation with this key ended before; what it came to is not there any
 * more. `never-sent`: not one byte of it left. `not-applied`: the service says that nothing of it
 * happened, and it was not sent again. `key-ends`: its key is about to be forgotten, so it was not
 * sent.
 */
export type Refusal = Problem | 'never-sent' | 'not-applied' | 'key-ends';

/** It was refused or never arrived: nothing of it happened here. */
export interface Refused {
  readonly kind: 'refused';
  readonly why: Refusal;
  /** The answer that refused it, if there was one. */
  readonly response: Answer | undefined;
  /** What was seen last, for a person. */
  readonly detail: string;
  /** How often it was sent. */
  readonly sent: number;
}

/** It may have taken effect. Keep the operation, and find out later: `Client.findOut`. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly operation: Operation;
}

/** An operation whose outcome is not known. */
export interface Operation {
  /** The intent, with its key: sent again, it never takes effect twice. */
  readonly intent: Intent;
  /** Where its status can be asked for, if the service named that. */
  readonly status: string | undefined;
  /** The last answer, such as a 500 that the service observed. */
  readonly evidence: Answer | undefined;
  /** What was seen last, for a person. */
  readonly why: string;
  /** How often it was sent. */
  readonly sent: number;
}

/** What became of an intent. */
export type Outcome = Done | Refused | Unknown;

/** An operation of which only the intent is known, as after a restart. */
export function operationOf(intent: Intent): Operation {
  const why = 'it may have been sent before';
  return { intent, status: undefined, evidence: undefined, why, sent: 0 };
}

/** The effect id of an operation, as the address of its status has it. */
export function effectId({ status }: Operation): string | undefined {
  if (status === undefined) return undefined;
  return /\/operations\/([^/]*)$/.exec(new URL(status).pathname)?.[1];
}
