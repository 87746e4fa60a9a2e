/** What a caller wants to happen once: a request that is frozen with its key. */

import type { RequestFacts } from './course.js';
import { uuid7 } from './uuid.js';

/**
 * How a key is written in its field. `quoted`: as a String in double quotes (RFC 9651), as the
 * draft of the field has it. `bare`: its bare characters, as most deployed services document it.
 */
export type KeyStyle = 'quoted' | 'bare';

/** What an intent is made of. */
export interface IntentOptions {
  readonly headers?: HeadersInit;
  /** A value to be written as the content; its media type is set. */
  readonly json?: unknown;
  readonly body?: string | Uint8Array | ArrayBuffer;
  /** A key that the caller has for it: one that was written down, or the number of an order. */
  readonly key?: string;
  /** Without a key, whatever the method: it is sent once, unless it is idempotent by itself. */
  readonly withoutKey?: boolean;
  /** Default: `quoted`. */
  readonly keyStyle?: KeyStyle;
  /** When a key that was written down was made, in seconds since 1970. Default: now. */
  readonly made?: number;
}

/** Why there is no intent. Nothing was sent. */
export class IntentError extends Error {
  override readonly name = 'IntentError';
}

const SAFE = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];
const IDEMPOTENT = [...SAFE, 'PUT', 'DELETE'];
const OURS = ['content-length', 'transfer-encoding', 'connection', 'idempotency-key'];
const LONGEST_KEY = 255;

/**
 * One intent: a request with its key, made before the first attempt and the same in each.
 *
 * Nothing of it can be changed: an intent that changed is another one, with another key.
 */
export class Intent {
  readonly method: string;
  readonly url: string;
  /** The key, if there is one. */
  readonly key: string | undefined;
  /** When its key was made, in seconds since 1970. */
  readonly made: number;
  /** Scheme, host and port: what a budget is of. */
  readonly destination: string;
  readonly #headers: Headers;
  readonly #body: Uint8Array;

  /**
   * Freezes a request. `POST`, `PATCH` and whatever else is not idempotent get a key of their own
   * (a UUIDv7), if they have none. Throws an {@link IntentError}.
   */
  constructor(method: string, url: string | URL, options: IntentOptions = {}) {
    const { key, withoutKey = false, keyStyle = 'quoted', made } = options;
    if (withoutKey && key !== undefined) {
      throw new IntentError('give a key, or say that it goes without');
    }
    const address = absolute(url);
    this.method = method.toUpperCase();
    this.url = address.href;
    this.destination = address.origin;
    const mints = !withoutKey && !IDEMPOTENT.includes(this.method);
    this.key = key ?? (mints ? uuid7() : undefined);
    this.made = made ?? Date.now() / 1000;
    const headers = fields(options);
    if (this.key !== undefined) headers.set('Idempotency-Key', keyField(this.key, keyStyle));
    this.#headers = headers;
    this.#body = content(options);
    Object.freeze(this);
  }

  /** An intent to `POST`. */
  static post(url: string | URL, options: IntentOptions = {}): Intent {
    return new Intent('POST', url, options);
  }

  /** A copy of its fields, with that of the key. */
  headers(): Headers {
    return new Headers(this.#headers);
  }

  /** A copy of its content. */
  body(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#body);
  }

  /** What is known of it before it is sent. */
  requestFacts(of: { retriedAbove: boolean; inDoubt: boolean; now: number }): RequestFacts {
    const safe = SAFE.includes(this.method);
    const idempotent = IDEMPOTENT.includes(this.method);
    return {
      safe,
      repeatable: this.key !== undefined || idempotent,
      idempotent,
      retriedAbove: of.retriedAbove,
      inDoubt: of.inDoubt && !safe,
      keyAge: Math.max(of.now - this.made, 0),
    };
  }
}

function absolute(url: string | URL): URL {
  let address: URL;
  try {
    address = new URL(url);
  } catch {
    throw new IntentError(`the address ${url} is not absolute; write it with https:// and a host`);
  }
  if (!['http:', 'https:'].includes(address.protocol)) {
    throw new IntentError(`the address ${url} is not one of HTTP; write it with https://`);
  }
  if (address.username !== '' || address.password !== '') {
    throw new IntentError('credentials belong into the field Authorization, not into the address');
  }
  return address;
}

function fields({ headers, json }: IntentOptions): Headers {
  let made: Headers;
  try {
    made = new Headers(headers);
  } catch (error) {
    throw new IntentError(`a field has characters that no field can carry: ${String(error)}`);
  }
  for (const name of OURS) {
    if (made.has(name)) {
      throw new IntentError(`the field ${name} is set by the client; leave it out`);
    }
  }
  if (json !== undefined) made.set('Content-Type', 'application/json');
  return made;
}

function content({ json, body }: IntentOptions): Uint8Array {
  if (json !== undefined && body !== undefined) {
    throw new IntentError('there is one content: give json or body');
  }
  if (json === undefined) {
    if (typeof body === 'string') return new TextEncoder().encode(body);
    // A copy: the caller may go on to write into theirs.
    return body instanceof ArrayBuffer ? new Uint8Array(body.slice(0)) : new Uint8Array(body ?? []);
  }
  let text: string | undefined;
  try {
    text = JSON.stringify(json);
  } catch (error) {
    throw new IntentError(`the content cannot be written as JSON: ${String(error)}`);
  }
  if (text === undefined) throw new IntentError('the content cannot be written as JSON');
  return new TextEncoder().encode(text);
}

function keyField(key: string, style: KeyStyle): string {
  if (key.length < 1 || key.length > LONGEST_KEY) {
    throw new IntentError(`a key has 1 to ${LONGEST_KEY} characters`);
  }
  if (!/^[ -~]*$/.test(key)) {
    throw new IntentError('the key has characters that a field cannot carry; use printable ASCII');
  }
  return style === 'bare' ? key : `"${key.replace(/["\\]/g, '\\$&')}"`;
}
