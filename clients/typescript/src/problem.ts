/** The problems of hapax: what each is called, and whether the same request may be sent again. */

// By name, whether the same request with the same key may be sent again.
const PROBLEMS = {
  'key-missing': false,
  'key-invalid': false,
  'path-unclear': false,
  'early-data': true,
  'upgrade-refused': false,
  'key-reused': false,
  'in-flight': true,
  'outcome-unknown': true,
  'outcome-not-kept': false,
  'key-expired': false,
  'body-invalid': false,
  'body-too-large': false,
  'body-timeout': true,
  'store-unavailable': true,
  'store-regressed': true,
  'policy-unknown': true,
  'upstream-unreachable': true,
  'upstream-failed': true,
  'handler-failed': true,
  'replay-forbidden': false,
  'authorization-unavailable': true,
  overloaded: true,
  draining: true,
  'scope-missing': false,
  'operation-unknown': false,
  'scope-unavailable': true,
} as const;

/** A problem of hapax, by the name at the end of its type (`urn:hapax:problem:<name>`). */
export type Problem = keyof typeof PROBLEMS;

/** The problem of a name, if there is one. */
export function problemOf(name: string): Problem | undefined {
  return Object.hasOwn(PROBLEMS, name) ? (name as Problem) : undefined;
}

/** Whether the same request with the same key may be sent again. */
export function mayBeRepeated(problem: Problem): boolean {
  return PROBLEMS[problem];
}
