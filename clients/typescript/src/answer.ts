/** A complete answer. */
export class Answer {
  constructor(
    /** 0 for a redirect that a page may not read. */
    readonly status: number,
    readonly headers: Headers,
    /** The content, without its content coding. */
    readonly body: Uint8Array,
    /** Whether the content was longer than the client keeps, and is cut. */
    readonly cut = false,
  ) {}

  /** The content as UTF-8. */
  text(): string {
    return new TextDecoder().decode(this.body);
  }

  /** The content as JSON. Throws a `SyntaxError` where it is none. */
  json(): unknown {
    return JSON.parse(this.text());
  }
}
