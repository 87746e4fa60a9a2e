/** One request and its complete answer, by the platform's `fetch`. */

import { Answer } from './answer.js';
import type { Lost, NeverSent } from './observation.js';

/** A request to send once. */
export interface Exchange {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer> | undefined;
  /** How long it may take to its complete answer, in seconds. */
  readonly timeout: number;
  /** Content behind so many bytes is left. */
  readonly longestContent: number;
}

/** Why there is no complete answer. */
export interface Failure {
  /** `never-sent` only where that is sure. */
  readonly seen: NeverSent | Lost;
  /** For a person. */
  readonly why: string;
}

/**
 * What sends a request: the platform's `fetch`, or what is like it. It never sends anything again.
 */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Sends a request and reads its whole answer, within its time. */
export async function exchange(fetch: Fetch, request: Exchange): Promise<Answer | Failure> {
  const { method, url, headers, body, timeout, longestContent } = request;
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(), timeout * 1000);
  try {
    const answer = await fetch(url, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
      // One that is followed is another request.
      redirect: 'manual',
      // An answer is the service's, and not one that somebody remembers.
      cache: 'no-store',
      signal: ending.signal,
    });
    const { content, cut } = await read(answer, longestContent);
    if (isCutHead(request, answer, content)) {
      const why = `${answer.status} without a length and without content`;
      return { seen: { kind: 'lost' }, why };
    }
    return new Answer(answer.status, answer.headers, content, cut);
  } catch (error) {
    if (ending.signal.aborted) {
      return { seen: { kind: 'lost' }, why: `no complete answer within ${timeout} s` };
    }
    return { seen: reached(error), why: reasons(error) };
  } finally {
    clearTimeout(timer);
  }
}

/** The content up to `longest` bytes, and whether there is more. */
async function read(
  answer: Response,
  longest: number,
): Promise<{ content: Uint8Array; cut: boolean }> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  let cut = false;
  const reader = answer.body?.getReader();
  while (reader !== undefined) {
    const { done, value } = await reader.read();
    if (done) break;
    const piece = value.subarray(0, longest - length);
    pieces.push(piece);
    length += piece.length;
    if (piece.length < value.length) {
      cut = true;
      await reader.cancel();
      break;
    }
  }
  const content = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    content.set(piece, at);
    at += piece.length;
  }
  return { content, cut };
}

/**
 * Whether the answer may be a head that was cut: over plain HTTP/1.1 browsers take it for a whole
 * one, and what follows for an empty body. Its own fields, such as `Hapax-Outcome`, may be what is
 * missing.
 */
function isCutHead({ method, url }: Exchange, answer: Response, content: Uint8Array): boolean {
  const hasNoContent = method === 'HEAD' || [204, 205, 304].includes(answer.status);
  return (
    url.startsWith('http:') &&
    answer.type !== 'opaqueredirect' &&
    !hasNoContent &&
    content.length === 0 &&
    !answer.headers.has('content-length')
  );
}

// No connection was made.
const NEVER_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'];
// The certificate is not to be trusted, which does not pass; it is looked at before anything is
// sent.
const UNTRUSTED = [
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
];

/** Whether a request may have been sent. A page is not told why a `fetch` failed. */
function reached(error: unknown): NeverSent | Lost {
  const codes = codesOf(error instanceof Error ? error.cause : undefined);
  if (codes.length === 0) return { kind: 'lost' };
  const areAll = (known: string[]) => codes.every((code) => known.includes(code));
  if (areAll(NEVER_SENT)) return { kind: 'never-sent', lasting: false };
  return areAll(UNTRUSTED) ? { kind: 'never-sent', lasting: true } : { kind: 'lost' };
}

/**
 * The codes of an error, or of each of those that it stands for: one for each address of a host.
 */
function codesOf(cause: unknown): string[] {
  if (cause instanceof AggregateError) return cause.errors.flatMap(codesOf);
  if (!(cause instanceof Error)) return [];
  const code = 'code' in cause ? cause.code : undefined;
  return [typeof code === 'string' ? code : ''];
}

/** What a person reads: the error, and what is behind it. */
function reasons(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${reasons(error.cause)}`;
}
